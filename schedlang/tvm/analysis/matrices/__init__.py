"""Analyses of matrix products and of the copies of their operands."""
