"""Timing programs against others that compute the same, one by one or suites of them."""

TORCH_DTYPES = ("float32", "float16", "float64")
"""Element types that torch computes on CPUs as schedlang does; the first is the usual one."""
