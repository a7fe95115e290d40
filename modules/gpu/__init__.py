"""Modules for GPUs."""
