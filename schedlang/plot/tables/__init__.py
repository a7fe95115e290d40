"""The numbers behind charts and reports, computed from a ``RunHistory``."""
