"""Fast programs of a workload, and of similar ones, to start a search from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from schedlang.database import Database, Record
from schedlang.database.programs import replayed
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.tuning.warm_start.kin import nearest_kin
from schedlang.workloads.workload import Workload

# Number of programs of each workload, of other workloads, and of records of each that are read.
_OF_EACH = 2
_OTHERS = 4
_LOOKED_AT = 16


def related(database: Database, workload: Workload) -> list[str]:
    """Return the keys of the workload, of equivalent workloads, and of its family."""
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
    """Return the fastest verified records of a workload and of related ones on a kind of machine.

    With ``newest``, only records up to this id count.
    """
    own, *others = related(database, workload)
    chosen: list[Record] = []
    for key in (own, *others[:_OTHERS]):
        chosen += _fastest(database, key, target_key, newest)
    return chosen


def kin_suggestions(
    database: Database, workload: Workload, target_key: str, newest: int | None = None
) -> list[tuple[Record, Workload]]:
    """Return the fastest verified records of programs of nearly the same shapes, and the programs.

    The fastest of each comes first, in the order of their distances. With ``newest``, only records
    up to this id count.
    """
    chosen: list[list[tuple[Record, Workload]]] = []
    for key, source in nearest_kin(database, workload):
        records = _fastest(database, key, target_key, newest)
        if records:
            chosen.append([(record, source) for record in records])
        if len(chosen) == _OTHERS:
            break
    ranks = zip_longest(*chosen)
    return [one for rank in ranks for one in rank if one is not None]


def _fastest(database: Database, key: str, target_key: str, newest: int | None) -> list[Record]:
    """Return the fastest verified records of different programs of a workload."""
    if newest is None:
        found = database.best(key, target_key, n=_LOOKED_AT, verified=True)
    else:
        found = database.query(key, target_key, status=Status.OK)
        found = [one for one in found if one.verified and (one.id or 0) <= newest]
        found = sorted(found, key=lambda one: one.latency)[:_LOOKED_AT]
    return list(_different(found))


def _different(fastest_first: Iterable[Record]) -> Iterator[Record]:
    """Yield the first records of different programs; the unscheduled one is no suggestion."""
    seen: set[str] = set()
    for record in fastest_first:
        if record.unscheduled:
            continue
        if record.program_key not in seen and len(seen) < _OF_EACH:
            seen.add(record.program_key)
            yield record


def applied(records: Sequence[Record], workload: Workload) -> list[Trace]:
    """Return the traces of the records that replay on ``workload``; block names may differ."""
    schedules = [replayed(record, workload) for record in records]
    return [schedule.trace for schedule in schedules if schedule is not None]


def newest(records: Sequence[Record]) -> int:
    """Return the largest id; 0 without any."""
    return max((record.id or 0 for record in records), default=0)
