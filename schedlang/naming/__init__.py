"""What words of a command line stand for: objects of files, sizes, machines, programs."""
