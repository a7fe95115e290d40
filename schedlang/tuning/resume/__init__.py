"""Going on with a run that was interrupted."""
