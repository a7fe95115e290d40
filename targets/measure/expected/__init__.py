"""Where the right results of a workload come from, and how exact they are."""
