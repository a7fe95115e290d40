"""Modules that use one instruction set each."""
