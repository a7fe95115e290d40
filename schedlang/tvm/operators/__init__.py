"""The standard operators as tensor expressions; ``schedlang.workloads`` makes workloads of them."""
