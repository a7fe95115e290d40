"""What a database already knows that helps to tune a workload: fast programs of it and its kin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schedlang.database import Database, Record
from schedlang.database.programs import replayed
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.workloads.workload import Workload

# So many of the fastest programs of a workload, and of how many others of its family.
_OF_EACH = 2
_OTHERS = 4
_LOOKED_AT = 16


def kin(database: Database, workload: Workload) -> list[str]:
    """Keys of the workload itself, of those that compute the same, and of its family, in order."""
    found = [workload.key]
    for keys in (
        database.workloads(exact_key=workload.exact_key),
        database.workloads(family_key=workload.family_key),
    ):
        found += [key for key, _ in keys if key not in found]
    return found


def suggestions(
    database: Database, workload: Workload, target_key: str, newest: int | None = None
) -> list[Record]:
    """The fastest verified records of this workload and of its kin on this kind of machine.

    As they were when ``newest`` was the id of the newest record, if that is given.
    """
    own, *others = kin(database, workload)
    chosen: list[Record] = []
    for key in (own, *others[:_OTHERS]):
        if newest is None:
            found = database.best(key, target_key, n=_LOOKED_AT, verified=True)
        else:
            found = database.query(key, target_key, status=Status.OK)
            found = [one for one in found if one.verified and (one.id or 0) <= newest]
            found = sorted(found, key=lambda one: one.latency)[:_LOOKED_AT]
        chosen += _different(found)
    return chosen


def _different(fastest_first: Iterable[Record]) -> Iterator[Record]:
    """The first ones of different programs."""
    seen: set[str] = set()
    for record in fastest_first:
        if record.program_key not in seen and len(seen) < _OF_EACH:
            seen.add(record.program_key)
            yield record


def as_traces(records: Sequence[Record], workload: Workload) -> list[Trace]:
    """Their traces on ``workload``; without those that do not apply, as blocks have other names."""
    schedules = [replayed(record, workload) for record in records]
    return [schedule.trace for schedule in schedules if schedule is not None]
