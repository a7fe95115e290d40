"""What a machine is good for, and what is wrong with it: one check a line."""
