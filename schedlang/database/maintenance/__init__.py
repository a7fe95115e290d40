"""Merging, pruning, comparing and summarising databases."""
