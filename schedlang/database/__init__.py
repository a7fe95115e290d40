"""Records of measurements, kept in memory or in one SQLite file."""

from __future__ import annotations

import os

from schedlang.database.base import Database
from schedlang.database.details import Rejections, RunDetails, TrialDetails
from schedlang.database.finals import FinalsEntry
from schedlang.database.history import RunHistory
from schedlang.database.latency import Timing, timing_in, timing_of
from schedlang.database.maintenance.diff import BestDiffers, Difference, diff
from schedlang.database.maintenance.history import history
from schedlang.database.maintenance.merge import Merged, merge
from schedlang.database.maintenance.prune import Pruned, prune
from schedlang.database.maintenance.summary import Summary, format_summary, summary
from schedlang.database.memory import MemoryDatabase
from schedlang.database.ranking import best_first
from schedlang.database.record import Record
from schedlang.database.run import Ask, Run
from schedlang.database.sqlite.database import SQLiteDatabase
from schedlang.database.sqlite.lost_journal import IncompleteDatabaseWarning

__all__ = [
    "Ask",
    "BestDiffers",
    "Database",
    "Difference",
    "FinalsEntry",
    "IncompleteDatabaseWarning",
    "MemoryDatabase",
    "Merged",
    "Pruned",
    "Record",
    "Rejections",
    "Run",
    "RunDetails",
    "RunHistory",
    "SQLiteDatabase",
    "Summary",
    "Timing",
    "TrialDetails",
    "best_first",
    "diff",
    "format_summary",
    "history",
    "merge",
    "open_database",
    "prune",
    "summary",
    "timing_in",
    "timing_of",
]


def open_database(
    where: Database | str | os.PathLike[str] | None = None, *, read_only: bool = False
) -> Database:
    """Open the database at a path, or return one that is given; None makes one in memory.

    Raises ``DatabaseError`` when the file cannot be opened, ``TypeError`` for anything else.
    """
    if isinstance(where, Database):
        return where
    if where is None:
        return MemoryDatabase()
    if isinstance(where, str | os.PathLike):
        return SQLiteDatabase(where, read_only=read_only)
    raise TypeError(f"a database is a path, a Database or None, not a {type(where).__name__}")
