"""Structural keys: which programs compute the same, and which are alike."""
