"""The content of a database by workload and target."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlang.database.database import Database
from schedlang.database.maintenance.reading import all_records
from schedlang.database.ranking import best_record, timing_in
from schedlang.measurement import describe_latency

HEAD = ("workload", "key", "target", "trials", "best", "verified", "newest", "failures")
"""Titles of the columns of ``row_of``."""


@dataclass(frozen=True)
class Summary:
    """The records of a workload on a target, with all toolchains.

    Attributes
    ----------
    trials: number of records of candidates; failures: number of failures by status.
    best: latency in seconds of the record that ``best_record`` prefers, which may be that of the
        unscheduled program: of the finals where it was in some; None when none worked.
    verified: whether the results of the best were compared.
    newest: when the last record was measured, in seconds since 1970.
    record: id of the best.
    """

    workload_key: str
    workload_name: str
    target_key: str
    trials: int
    failures: Mapping[str, int]
    best: float | None
    verified: bool
    newest: float
    record: int | None = None


def summary(database: Database) -> list[Summary]:
    """Return one ``Summary`` per workload and target, in the order of their first records."""
    found: dict[tuple[str, str], Summary] = {}
    failures: dict[tuple[str, str], Counter[str]] = {}
    for record in all_records(database):
        key = (record.workload_key, record.target_key)
        before = found.get(key)
        failed = failures.setdefault(key, Counter())
        if not record.ok:
            failed[str(record.status)] += 1
        trials = 0 if before is None else before.trials
        found[key] = Summary(
            record.workload_key,
            record.workload_name,
            record.target_key,
            trials + (not record.unscheduled),
            failed,
            None,
            False,
            record.created if before is None else max(before.newest, record.created),
        )
    return [_with_best(database, one) for one in found.values()]


def _with_best(database: Database, one: Summary) -> Summary:
    best = best_record(database, one.workload_key, one.target_key)
    if best is None:
        return one
    latency = timing_in(database, best).latency
    return replace(one, best=latency, verified=best.verified, record=best.id)


def format_summary(summaries: Sequence[Summary]) -> str:
    """Return a table as text, with one line per summary."""
    rows = [HEAD, *map(row_of, summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def row_of(one: Summary) -> tuple[str, ...]:
    """Return a summary as texts in columns, whose titles are ``HEAD``."""
    return (
        one.workload_name,
        one.workload_key,
        one.target_key,
        str(one.trials),
        "-" if one.best is None else describe_latency(one.best),
        "yes" if one.verified else "no",
        _day(one.newest),
        ", ".join(f"{count} {status}" for status, count in sorted(one.failures.items())) or "-",
    )


def _day(seconds: float) -> str:
    try:
        return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "?"
