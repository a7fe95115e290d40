"""How programs run on a GPU: its memory, its clock, its errors, and who else uses it."""
