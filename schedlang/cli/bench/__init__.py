"""Timing a program against others that compute the same: unscheduled, and in torch."""
