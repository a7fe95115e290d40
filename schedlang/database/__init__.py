"""Records of measurements, kept in memory or in one SQLite file."""

from typing import TYPE_CHECKING

from schedlang.database.database import Database
from schedlang.database.file import IncompleteDatabaseWarning
from schedlang.database.history import RunHistory
from schedlang.database.opening import open_database, opened_database
from schedlang.database.past_runs import history
from schedlang.database.ranking import Timing, best_first, timing_in, timing_of
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Ask, Rejections, Run, RunDetails, TrialDetails

if TYPE_CHECKING:
    from schedlang.database.merging import Merged, Pruned, merge, prune
    from schedlang.database.summaries import (
        BestDiffers,
        Difference,
        WorkloadSummary,
        diff,
        format_summary,
        summary,
    )
else:
    from schedlang._lazy import attach

    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "Ask",
    "BestDiffers",
    "Database",
    "Difference",
    "FinalsEntry",
    "IncompleteDatabaseWarning",
    "Merged",
    "Pruned",
    "Record",
    "Rejections",
    "Run",
    "RunDetails",
    "RunHistory",
    "WorkloadSummary",
    "Timing",
    "TrialDetails",
    "best_first",
    "diff",
    "format_summary",
    "history",
    "merge",
    "open_database",
    "opened_database",
    "prune",
    "summary",
    "timing_in",
    "timing_of",
]
