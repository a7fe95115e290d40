"""The result of a run that a database holds, without the call that made it."""

from __future__ import annotations

import json
import os
from collections import Counter

from schedlang.database import Database, RunHistory, history, opened_database
from schedlang.database.outcome import NOT_ENDED, fastest_first, has_gone_on
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
    not end, or that went on since, has the result so far, without finals. DatabaseError where there
    is no such run, or it cannot be read.
    """
    with opened_database(database, read_only=True) as opened:
        found = history(opened, run_id)
    try:
        workload = Workload(read_stored_program(found.program), found.name)
    except WorkloadError as error:
        raise DatabaseError(
            f"the program of run {found.run.id} ({found.name}) cannot be read: {error}"
        ) from error
    target = as_target(target)
    if _has_ending(found):
        return ended_result(workload, target, Ending.from_json(found.run.outcome), found)
    return _result_so_far(workload, target, found)


def _has_ending(found: RunHistory) -> bool:
    """Whether the run ended, and its database holds all of how it did."""
    if not found.run.outcome:
        return False
    try:
        stored = json.loads(found.run.outcome)
    except (ValueError, RecursionError):
        return True  # which reading it says
    # Earlier versions saved the records and the reason only.
    named = isinstance(stored, dict) and "winner" not in stored and "finished" in stored
    return not (named or has_gone_on(found))


def _result_so_far(workload: Workload, target: Target, found: RunHistory) -> TuneResult:
    rejected: Counter[str] = Counter()
    for one in found.rejections:
        rejected[one.reason] += one.count
    best = None
    if fastest := fastest_first(found):
        best = Best(fastest[0], Trace.from_json(fastest[0].trace_json, workload), target)
    last = max((phase.end for phase in found.phases), default=found.run.created)
    return TuneResult(
        workload,
        found.records,
        rejected,
        (),
        found.reference,
        found.seconds_at(last),
        found.finished or NOT_ENDED,
        best,
        earlier=len(found.records),
        unscheduled=found.unscheduled,
        interrupted=not found.finished,
        _history=found,
    )
