"""Parts of tensors that functions read: one function for all parts, as in each step of a loop."""
