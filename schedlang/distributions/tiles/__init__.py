"""Shared by the tile distributions: divisors, factorizations, moves, weights."""
