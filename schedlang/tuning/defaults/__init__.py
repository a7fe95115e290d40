"""Schedules without measuring: what an untuned program runs with."""

from schedlang.tuning.defaults.default_schedule import default_schedule

__all__ = ["default_schedule"]
