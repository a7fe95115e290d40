"""Coordinate descent (Droplet Search)."""

from schedlang.search.coordinate_descent.coordinate_descent import CoordinateDescent

__all__ = ["CoordinateDescent"]
