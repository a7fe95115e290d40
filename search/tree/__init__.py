"""Single-player tree search."""
