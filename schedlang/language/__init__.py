"""The facade that users see: schedules, traces, primitives, macros."""
