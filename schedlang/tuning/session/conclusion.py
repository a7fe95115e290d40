"""The result of a run, its stored form, and ``read_result``, which makes it of a database alone."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, replace

from schedlang.database import Database, RunHistory, history, opened_database
from schedlang.database.past_runs import (
    NOT_ENDED,
    as_history,
    details_of,
    fastest_first,
    has_gone_on,
)
from schedlang.database.programs import program_text
from schedlang.errors import DatabaseError, WorkloadError
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.measurement.finals import Finals, choose, undisputed
from schedlang.measurement.measurement import reason_of
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.search import Strategy
from schedlang.spaces.space import Space
from schedlang.targets import Target, as_target
from schedlang.tuning.budget import Budget
from schedlang.tuning.result import Best, TuneResult
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.resume import Journal, RunState
from schedlang.tuning.session.run import TuningRun
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload

# -- The result of a run that ended ---------------------------------------------------------------

_MOST_CULPRITS = 5
# Finding what made a program takes a replay of its trace.
_MOST_LOOKED_AT = 32
# Seconds between reading the clock for the parts of a time and for all of it.
_ROUNDING = 0.01


def result_of(
    run: TuningRun, target: Target, finished: str, *, interrupted: bool = False
) -> TuneResult:
    """Return the result of a run that ended, whose details are stored; ``finished`` says why.

    The run of its history has the ending, also where no database keeps it.
    """
    state = run.state
    best = None
    if leaders := state.leaderboard.fastest_first:
        runner_up = leaders[1].record if run.finals and run.finals.runner_up else None
        winner = leaders[0]
        best = Best(winner.record, winner.schedule.trace, target, run.finals, runner_up)
    rejections = state.strategy.rejections
    rejected = Counter(rejection.reason for rejection in rejections)
    rejected.update(reason_of(one.status, one.message) for one in state.records if not one.ok)
    rejected.update(run.failed_finals)
    culprits = Counter(rejection.where for rejection in rejections if rejection.where)
    blamed = list(_culprits(state, target, run.budget))
    culprits.update(where for where, _ in blamed)
    run.recorder.conclude(blamed)
    history = run.history(finished)
    result = TuneResult(
        state.workload,
        state.records,
        rejected,
        culprits.most_common(_MOST_CULPRITS),
        run.reference_latency,
        run.budget.elapsed,
        finished,
        best,
        run.time_split(),
        state.earlier,
        run.unscheduled.complete,
        run.unscheduled.record,
        interrupted=interrupted,
        unreached=tuple(run.unreached),
        at_fault=run.at_fault,
        core_use=None if run.cores is None else run.cores.use(),
        _history=history,
    )
    ended = replace(history.run, outcome=ending_of(run, result).to_json())
    return replace(result, _history=replace(history, run=ended))


def _culprits(state: RunState, target: Target, budget: Budget) -> Iterator[tuple[str, str]]:
    """Give what made the programs that were rejected before they ran, of some, and the reasons.

    It ends when the budget is over.
    """
    refused = [one for one in state.records if one.status is Status.REJECTED and one.trace_json]
    for record in refused[:: max(1, len(refused) // _MOST_LOOKED_AT)]:
        if budget.left <= 0:
            return
        trace = Trace.from_json(record.trace_json, state.workload)
        reason = reason_of(record.status, record.message)
        where = target.culprit(trace, reason)
        if where:
            yield where, reason


def ending_of(run: TuningRun, result: TuneResult) -> Ending:
    """Return the ending of a run as the database stores it."""
    best, finals = result.best if result.has_best else None, run.finals
    # What ends in the middle of the last batch leaves proposals for a call that continues the run.
    cut_off = run.pace.out_of_time or bool(run.watch.stopped)
    return Ending(
        finished=result.finished,
        exhausted=run.state.strategy.finished is not None and not cut_off,
        limit=run.budget.seconds if run.pace.out_of_time else None,
        records=[record.id for record in result.records if record.id is not None],
        reference=result.reference_latency,
        seconds=run.budget.used,
        rejected=dict(result.rejected),
        culprits=list(result.culprits),
        winner=None if best is None else best.record.id,
        runner_up=None if best is None or best.runner_up is None else best.runner_up.id,
        trace="" if best is None else best.trace.to_json(),
        finals={} if finals is None else {one.id: list(one.samples) for one in finals.ranking},
        split=dict(result.time_split),
        unscheduled=None if result.unscheduled is None else result.unscheduled.id,
        complete=result.reference_complete,
        held=finals is None or finals.held,
        unreached=list(result.unreached),
        trials=run.state.trials,
        stopped=run.watch.stopped,
        space=_modules_of(run.state.strategy),
        interrupted=result.interrupted,
        at_fault=result.at_fault,
        core_use=() if result.core_use is None else astuple(result.core_use),
    )


def _modules_of(strategy: Strategy) -> list[str]:
    space = getattr(strategy, "space", None)
    return [module.name for module in space.modules] if isinstance(space, Space) else []


def stored_result(
    workload: Workload, target: Target, journal: Journal, ending: Ending, budget: Budget
) -> TuneResult:
    """Return the result of a run that ended in an earlier call; nothing is measured.

    DatabaseError when the database lacks some of its records.
    """
    records = journal.records(ending.records)
    unscheduled = None
    if ending.unscheduled is not None:
        [unscheduled] = journal.records([ending.unscheduled])
    keys = journal.run.workload_key, journal.run.target_key, journal.run.toolchain_key
    history = as_history(
        journal.run,
        workload.name,
        records,
        unscheduled,
        details_of(journal.database, journal.run, records),
        journal.database.finals(*keys),
        ending.finished,
        program_text(workload),
    )
    found = ended_result(workload, target, ending, history)
    return replace(found, seconds=budget.elapsed, time_split={"other": budget.elapsed})


def ended_result(
    workload: Workload, target: Target, ending: Ending, history: RunHistory
) -> TuneResult:
    """Return the result of a run that ended.

    What calls before the last one took is the part ``earlier`` of its time. DatabaseError when its
    history lacks the winner.
    """
    records = {record.id: record for record in history.records}
    if history.unscheduled is not None:
        records[history.unscheduled.id] = history.unscheduled
    best = None
    if ending.winner is not None:
        if ending.winner not in records:
            raise DatabaseError(
                f"the database lacks record {ending.winner}, the winner of run {history.run.id}; "
                "tune with remeasure=True to begin it again"
            )
        runner_up = None if ending.runner_up is None else records.get(ending.runner_up)
        trace = Trace.from_json(ending.trace, workload)
        best = Best(records[ending.winner], trace, target, _finals_of(ending), runner_up)
    before = ending.seconds - sum(ending.split.values())
    split = dict(ending.split) | ({"earlier": before} if before > _ROUNDING else {})
    return TuneResult(
        workload,
        history.records,
        Counter(ending.rejected),
        [(name, count) for name, count in ending.culprits],
        ending.reference,
        ending.seconds,
        ending.finished,
        best,
        split,
        len(history.records),
        ending.complete,
        history.unscheduled,
        ending.interrupted,
        unreached=tuple(ending.unreached),
        at_fault=ending.at_fault,
        core_use=ending.use_of_cores,
        _history=history,
    )


def _finals_of(ending: Ending) -> Finals | None:
    if not ending.finals:
        return None
    if not ending.held:
        [(number, samples)] = ending.finals.items()
        return undisputed(number, samples)
    return choose(dict(sorted(ending.finals.items())), incumbent=REFERENCE_ID)


# -- The result of a run that a database holds ----------------------------------------------------


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
