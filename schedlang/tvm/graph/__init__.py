"""Programs as graphs, and their canonical forms."""
