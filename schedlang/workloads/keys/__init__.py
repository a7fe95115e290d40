"""Structural keys: equal for programs that compute the same, or that may share schedules."""
