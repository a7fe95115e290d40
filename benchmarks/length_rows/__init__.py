"""Parts of `lengths.py`."""
