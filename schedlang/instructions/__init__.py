"""Instructions and their parts: handles, arguments, kinds, choices, sites."""
