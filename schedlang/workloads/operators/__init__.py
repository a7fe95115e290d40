"""Operators by name, from matrix products to fused blocks."""
