"""Timing programs against others that compute the same, one by one or suites of them."""
