"""Divisors, factorizations, moves and weights, shared by the tile distributions."""
