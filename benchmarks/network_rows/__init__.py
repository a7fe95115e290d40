"""Parts of the benchmark of networks."""
