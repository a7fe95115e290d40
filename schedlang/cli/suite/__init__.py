"""Suites: files of kernels to tune, and to set beside torch."""
