"""What ``streams.py`` digests of a call: lines of text that say what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.measurement import RecordedSpace

Lines = Iterator[str]
TARGET = sl.Target("x86/avx2", cores=2)
"""The target of all calls: not this machine, whose caches would change the default space."""


def of_records(records: Iterable[Record]) -> Lines:
    """Yield a line for each record."""
    for one in records:
        yield (
            f"{one.workload_key} {one.search} {one.seed} {one.proposal} {one.status} "
            f"{one.verified} {one.samples!r} {one.message} {one.program_key} {one.trace_json}"
        )


def of_database(database: Database) -> Lines:
    """Yield the number of runs, and all records in the order in which they came."""
    yield f"{len(database.runs())} runs"
    yield from of_records(database.query())


def of_result(result: sl.TuneResult) -> Lines:
    """Yield records, ending, best program and finals of a call of ``tune``."""
    yield from of_records(result.records)
    yield f"{result.finished} {result.interrupted} {result.reference_latency!r}"
    yield f"{sorted(result.rejected.items())}"
    if result.has_best:
        yield f"{result.best.record.program_key} {result.best.latency!r}"
        for place, entry in enumerate(result.best.finals.ranking if result.best.finals else ()):
            yield f"{place} {entry!r}"


def of_network(result: sl.NetworkResult, database: Database) -> Lines:
    """Yield what the database has, and what became of each task."""
    yield from of_database(database)
    for task in result.tasks:
        yield f"{task.name} {task.weights} {task.trials} {task.latency!r} {task.share!r}"
        yield f"{list(task.history)!r} {task.finished} {task.failed} {task.keeps_default}"
        if task.result is not None:
            yield from of_result(task.result)
    yield f"{result.trials} {result.latencies!r} {result.finished} {result.interrupted}"


def of_shapes(found: sl.ShapeSet, database: Database) -> Lines:
    """Yield what the database has, the programs of single shapes, and the kernels of ranges."""
    yield from of_database(database)
    for point in found.points:
        yield f"{point.extents} {point.weight} {point.origin} {point.latency!r} {point.trials}"
        yield point.trace.to_json()
    for some in found.ranges:
        yield f"{some.range} {some.tree!r} {some.samples!r} {some.latencies.tolist()!r}"
        yield f"{some.verified!r} {some.measured}"
        for kernel in some.kernels:
            yield f"{kernel.origin} {kernel.extents} {kernel.trace.to_json()}"
    yield f"{dict(found.failed)} {found.measured} {found.interrupted}"


def of_survey(found: RecordedSpace, database: Database) -> Lines:
    """Yield what the database has, and the recorded space."""
    yield from of_database(database)
    yield from map(repr, found.ways)
    yield from map(repr, found.programs)
    yield f"{found.reference!r}"
