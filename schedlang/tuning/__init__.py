"""Tuning: space, search, measurement and database put together; and what a database is good for."""

from schedlang.search import SEARCHES
from schedlang.targets import Target
from schedlang.tuning.lookup import Match, UntunedWarning, apply, best
from schedlang.tuning.result import TuneResult
from schedlang.tuning.tune import BATCH, default_space, tune

__all__ = [
    "BATCH",
    "SEARCHES",
    "Match",
    "Target",
    "TuneResult",
    "UntunedWarning",
    "apply",
    "best",
    "default_space",
    "tune",
]
