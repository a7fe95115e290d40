"""Libraries for C that need no TVM: what is exported, linked, and loaded again."""
