"""Comparing what candidates compute with the right results: which of them, how often, and how."""
