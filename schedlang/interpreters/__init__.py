"""Interpreters of a trace: replay, assess, flatten."""
