"""The CPU of this machine: its space, building and measuring."""
