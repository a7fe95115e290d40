"""The verbs, one file each or one for a few that belong together."""
