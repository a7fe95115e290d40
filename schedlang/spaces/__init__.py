"""Modules, the spaces they make, and mutation of their traces."""
