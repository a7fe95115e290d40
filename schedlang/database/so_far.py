"""Where a run stands that did not end, or that went on since: from its records alone."""

from __future__ import annotations

from schedlang.database.history import RunHistory
from schedlang.database.record import Record
from schedlang.database.run import went_on

__all__ = ["NOT_ENDED", "fastest_first", "has_gone_on"]

NOT_ENDED = "not yet, or it was interrupted"
"""Why a run ended that has not, as far as its database tells."""


def has_gone_on(history: RunHistory) -> bool:
    """Whether the run has measured more since the end that its outcome tells of."""
    return went_on(history.run, len(history.records))


def fastest_first(history: RunHistory) -> list[Record]:
    """Return the records that may win, the fastest first; of equal ones the unscheduled program.

    Where results were compared, candidates whose results were not come last.
    """
    unscheduled = () if history.unscheduled is None else (history.unscheduled,)
    compared = any(one.ok and one.verified for one in history.records)
    ok = [one for one in (*unscheduled, *history.records) if one.ok]
    return sorted(ok, key=lambda one: (compared and not one.verified, one.latency))
