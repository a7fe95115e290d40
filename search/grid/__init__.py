"""Exhaustive search."""

from schedlang.search.grid.grid import Grid

__all__ = ["Grid"]
