"""Modules for every kind of machine, and what modules share."""
