"""Cost models, and how they are taught."""
