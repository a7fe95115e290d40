"""Modules for every kind of machine."""
