"""The rows of ``benchmarks/gpu.py``."""
