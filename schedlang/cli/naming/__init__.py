"""What words of a command line stand for: programs, sizes, arrays, machines, runs and records."""
