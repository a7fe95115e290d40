"""A trace as JSON, as Python, and as Python that needs TVM alone."""
