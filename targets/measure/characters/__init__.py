"""Values of one character: at the edges of a tensor, on one side of zero, rarely true."""
