"""Compare two databases: records that only one of them has, best latencies that differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from schedlang.database.database import Database
from schedlang.database.maintenance.reading import all_records, content_of
from schedlang.database.maintenance.summary import Summary, summary
from schedlang.database.record import Record
from schedlang.measurement import describe_latency


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


def _best(found: Summary | None) -> float | None:
    return None if found is None else found.best
