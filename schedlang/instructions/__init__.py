"""Instructions and what they are made of: handles, arguments, kinds, choices, sites."""
