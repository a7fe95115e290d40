"""From a run to its result, and from what a database keeps of it."""

from __future__ import annotations

from collections import Counter

from schedlang.database import Record
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer
from schedlang.measurement.finals import Finals, choose
from schedlang.targets import Target
from schedlang.tuning.budget import Clock
from schedlang.tuning.result import Best, TuneResult
from schedlang.tuning.resume.journal import Ending, Journal
from schedlang.tuning.run import TuningRun
from schedlang.workloads.workload import Workload


def result_of(run: TuningRun, target: Target, measurer: Measurer, finished: str) -> TuneResult:
    """What ``tune`` gives back for a run that ended."""
    best = None
    if leaders := run.leaders.fastest_first:
        runner_up = leaders[1].record if run.finals and len(leaders) > 1 else None
        best = _best(leaders[0].record, leaders[0].schedule.trace, target, run.finals, runner_up)
    return TuneResult(
        run.workload,
        run.records,
        run.count_rejected(),
        run.culprits(),
        run.reference_latency(measurer),
        run.clock.elapsed,
        finished,
        best,
        run.time_split(measurer),
        run.earlier,
    )


def ending_of(run: TuningRun, result: TuneResult) -> Ending:
    """What the database keeps of it."""
    leaders = [leader.record.id for leader in run.leaders.fastest_first]
    finals = {} if run.finals is None else {f.id: list(f.samples) for f in run.finals.ranking}
    return Ending(
        finished=result.finished,
        exhausted=run.strategy.finished is not None,
        limit=run.clock.seconds if run.out_of_time else None,
        records=[record.id for record in run.records if record.id is not None],
        reference=result.reference_latency,
        seconds=run.clock.used,
        rejected=dict(result.rejected),
        culprits=list(result.culprits),
        winner=leaders[0] if leaders else None,
        runner_up=leaders[1] if run.finals and len(leaders) > 1 else None,
        trace=result.best.trace.to_json() if leaders else "",
        finals=finals,
        split=dict(result.time_split),
    )


def stored_result(
    workload: Workload, target: Target, journal: Journal, ending: Ending, clock: Clock
) -> TuneResult:
    """The result of a run that ended before; nothing is measured.

    DatabaseError when the database lacks some of its records.
    """
    by_id = journal.records(ending.records)
    best = None
    if ending.winner is not None:
        record = by_id[ending.winner]
        finals = choose(dict(sorted(ending.finals.items()))) if ending.finals else None
        runner_up = None if ending.runner_up is None else by_id[ending.runner_up]
        trace = Trace.from_json(ending.trace, workload)
        best = _best(record, trace, target, finals, runner_up)
    return TuneResult(
        workload,
        [by_id[number] for number in ending.records],
        Counter(ending.rejected),
        [(name, count) for name, count in ending.culprits],
        ending.reference,
        clock.elapsed,
        ending.finished,
        best,
        {"other": clock.elapsed},
        len(ending.records),
    )


def _best(
    record: Record, trace: Trace, target: Target, finals: Finals | None, runner_up: Record | None
) -> Best:
    return Best(
        record,
        trace,
        target.build,
        target.export_library,
        finals,
        runner_up,
    )
