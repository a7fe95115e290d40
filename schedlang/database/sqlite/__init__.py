"""Records in one SQLite file."""
