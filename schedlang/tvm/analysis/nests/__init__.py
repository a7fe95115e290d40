"""The loop nests of a program: its statements, and by how much each loop moves an index."""
