"""Modules for CPUs."""
