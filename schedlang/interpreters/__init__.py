"""Interpreters of a trace: replay, probability, other forms; as JSON and as Python."""
