"""How values flow through an unscheduled program, and which branches they take."""
