"""What is in a database by workload and target, and how two differ; nothing here needs TVM."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlang.database.database import Database
from schedlang.database.merging import all_records, content_of
from schedlang.database.ranking import best_record, timing_in
from schedlang.database.record import Record
from schedlang.measurement import describe_latency

# -- Its content by workload and target -----------------------------------------------------------

HEAD = ("workload", "key", "target", "trials", "best", "verified", "newest", "failures")
"""Titles of the columns of ``row_of``."""


@dataclass(frozen=True)
class WorkloadSummary:
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


def summary(database: Database) -> list[WorkloadSummary]:
    """Return a ``WorkloadSummary`` per workload and target, in the order of their first records."""
    found: dict[tuple[str, str], WorkloadSummary] = {}
    failures: dict[tuple[str, str], Counter[str]] = {}
    for record in all_records(database):
        key = (record.workload_key, record.target_key)
        before = found.get(key)
        failed = failures.setdefault(key, Counter())
        if not record.ok:
            failed[str(record.status)] += 1
        trials = 0 if before is None else before.trials
        found[key] = WorkloadSummary(
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


def _with_best(database: Database, one: WorkloadSummary) -> WorkloadSummary:
    best = best_record(database, one.workload_key, one.target_key)
    if best is None:
        return one
    latency = timing_in(database, best).latency
    return replace(one, best=latency, verified=best.verified, record=best.id)


def format_summary(summaries: Sequence[WorkloadSummary]) -> str:
    """Return a table as text, with one line per summary."""
    rows = [HEAD, *map(row_of, summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def row_of(one: WorkloadSummary) -> tuple[str, ...]:
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


# -- Two databases: records that only one has, best latencies that differ -------------------------


@dataclass(frozen=True)
class BestDiffers:
    """A workload on a target whose lowest latency is not the same in both.

    Attributes
    ----------
    workload_name, workload_key, target_key: what it is of.
    one, other: the lowest latency in seconds in each; None where nothing worked.
    """

    workload_name: str
    workload_key: str
    target_key: str
    one: float | None
    other: float | None

    def __str__(self) -> str:
        times = [
            "none" if time is None else describe_latency(time) for time in (self.one, self.other)
        ]
        ratio = f" ({self.one / self.other:.2f}x)" if self.one and self.other else ""
        return (
            f"{self.workload_name} {self.workload_key} on {self.target_key}: "
            f"{times[0]} and {times[1]}{ratio}"
        )


@dataclass(frozen=True)
class Difference:
    """What ``diff`` found; false when the records are the same.

    Attributes
    ----------
    only_in_one, only_in_other: records that the other database lacks; ids and runs do not count.
    best: where the lowest latency differs.
    """

    only_in_one: tuple[Record, ...]
    only_in_other: tuple[Record, ...]
    best: tuple[BestDiffers, ...]

    def __bool__(self) -> bool:
        return bool(self.only_in_one or self.only_in_other or self.best)

    def __str__(self) -> str:
        if not self:
            return "the same records"
        lines = [
            f"{len(self.only_in_one)} records are only in the first, "
            f"{len(self.only_in_other)} only in the second"
        ]
        if self.best:
            lines.append("the best differs:")
        return "\n".join(lines + [f"  {one}" for one in self.best])


def diff(one: Database, other: Database) -> Difference:
    """Compare the records of two databases; neither is changed."""
    theirs = Counter(content_of(record) for record in all_records(other))
    only_in_one = _without(one, theirs)
    only_in_other = _without(other, Counter(content_of(record) for record in all_records(one)))
    ours = {(s.workload_key, s.target_key): s for s in summary(one)}
    others = {(s.workload_key, s.target_key): s for s in summary(other)}
    best = []
    for key in ours | others:
        first, second = _best(ours.get(key)), _best(others.get(key))
        if first != second:
            name = (ours | others)[key].workload_name
            best.append(BestDiffers(name, *key, first, second))
    return Difference(only_in_one, only_in_other, tuple(best))


def _without(database: Database, theirs: Counter[bytes]) -> tuple[Record, ...]:
    only = []
    for record in all_records(database):
        content = content_of(record)
        if theirs[content]:
            theirs[content] -= 1
        else:
            only.append(record)
    return tuple(only)


def _best(found: WorkloadSummary | None) -> float | None:
    return None if found is None else found.best
