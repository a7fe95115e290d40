"""Parallel loops: whether threads can change what a program computes."""
