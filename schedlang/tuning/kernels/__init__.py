"""Which kernel a program gets: records, schedules of relatives and defaults, and their races."""
