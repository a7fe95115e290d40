"""Networks compiled: the programs of a database, a callable, a summary, a library."""
