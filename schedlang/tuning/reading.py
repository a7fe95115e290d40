"""The result of a run that a database holds, without the call that made it."""

from __future__ import annotations

import math
import os
from collections import Counter
from contextlib import ExitStack

from schedlang.database import Database, Record, RunHistory, history, open_database
from schedlang.errors import DatabaseError, WorkloadError
from schedlang.language.schedule import Trace
from schedlang.targets import Target, as_target
from schedlang.tuning.conclusion import ended_result
from schedlang.tuning.result import Best, TuneResult
from schedlang.tuning.resume.ending import Ending
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload


def read_result(
    database: Database | str | os.PathLike[str],
    run_id: int | None = None,
    *,
    target: Target | str = "cpu",
) -> TuneResult:
    """Return the result of a run that a database holds, by default of the newest.

    Nothing is measured. ``target`` is the machine that ``result.best`` is built for. A run that did
    not end has the result so far, without finals. DatabaseError where there is no such run, or it
    cannot be read.
    """
    with ExitStack() as stack:
        opened = open_database(database, read_only=True)
        if opened is not database:
            stack.callback(opened.close)
        found = history(opened, run_id)
    try:
        workload = Workload(read_stored_program(found.program), found.name)
    except WorkloadError as error:
        raise DatabaseError(
            f"the program of run {found.run.id} ({found.name}) cannot be read: {error}"
        ) from error
    target = as_target(target)
    if found.run.outcome:
        return ended_result(workload, target, Ending.from_json(found.run.outcome), found)
    return _result_so_far(workload, target, found)


def _result_so_far(workload: Workload, target: Target, found: RunHistory) -> TuneResult:
    rejected: Counter[str] = Counter()
    for one in found.rejections:
        rejected[one.reason] += one.count
    unscheduled = found.unscheduled
    measured = unscheduled is not None and unscheduled.ok
    ok = [one for one in (*found.records, unscheduled) if one is not None and one.ok]
    best = None
    if ok:
        winner: Record = min(ok, key=lambda one: (not one.verified, one.latency))
        best = Best(winner, Trace.from_json(winner.trace_json, workload), target)
    last = max((phase.end for phase in found.phases), default=found.run.created)
    return TuneResult(
        workload,
        found.records,
        rejected,
        (),
        unscheduled.latency if measured and unscheduled is not None else math.nan,
        found.seconds_at(last),
        found.finished,
        best,
        earlier=len(found.records),
        unscheduled=unscheduled,
        interrupted=True,
        _history=found,
    )
