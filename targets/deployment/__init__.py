"""Programs outside a tuning run: callables, shared libraries, and what those record."""
