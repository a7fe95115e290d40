"""Bringing a run to where it was: nothing is measured twice."""

from __future__ import annotations

import os
from collections.abc import Sequence

from schedlang.database import Ask, Record
from schedlang.errors import InvalidTrace, TraceFormatError
from schedlang.search import pretrain
from schedlang.trace import Trace
from schedlang.tune.journal import Journal, newest
from schedlang.tune.known import Diverged
from schedlang.tune.run import TuningRun
from schedlang.tune.sources import as_traces, suggestions

# Records of each workload that a cost model is taught, before a run: some 10 ms each.
_TAUGHT = 64
_THREADS = min(os.cpu_count() or 1, 8)


def resume(run: TuningRun, journal: Journal, past: Sequence[Record], *, reuse: bool) -> Journal:
    """Bring a run to where its journal ends; nothing is measured.

    Where the search would now propose other programs than it did, as its code has changed, the run
    begins again, and takes over what it measures. Returns the journal of it.

    Parameters
    ----------
    past: records to start from if it begins again.
    reuse: programs that other runs measured need not be measured again.
    """
    run.write_to(journal, reuse=reuse)
    told = journal.restore(run.strategy)
    if told is None:
        journal.forget_state()
        run.begin(run.another_strategy())
        told = []
    if not journal.run.state and journal.run.known:
        like = run.like
        known = suggestions(run.database, run.workload, like.target_key, journal.run.known)
        _warm_up(run, known)
    try:
        _take_over(run, told)
        for ask in journal.asks():
            _ask_again(run, ask)
    except Diverged:
        journal = journal.restart(past)
        run.write_to(journal, reuse=reuse)
        run.begin(run.another_strategy())
        _warm_up(run, past)
    run.clock.earlier = journal.seconds
    return journal


def _warm_up(run: TuningRun, past: Sequence[Record]) -> None:
    """Show a search that was asked nothing yet what was fast before, and teach its model."""
    if not past:
        return
    run.strategy.suggest(as_traces(past, run.workload))
    model = run.strategy.cost_model
    if model is not None and not model.trained:
        pretrain(
            model,
            run.database,
            target_key=run.like.target_key,
            workloads={record.workload_key for record in past},
            limit=_TAUGHT,
            newest=newest(past),
            threads=_THREADS,
        )


def _take_over(run: TuningRun, records: Sequence[Record]) -> None:
    """Count records that the search knows of; the programs of the fastest are made again."""
    run.records += records
    run.earlier += len(records)
    for record in sorted((one for one in records if one.ok), key=lambda one: one.latency):
        if run.leaders.wants(record):
            try:
                trace = Trace.from_json(record.trace_json, run.workload)
                run.leaders.add(record, trace.replay())
            except (InvalidTrace, TraceFormatError):
                pass  # instructions have changed since; it stays a record


def _ask_again(run: TuningRun, ask: Ask) -> None:
    """What the search was asked before, and told."""
    if run.unfinished:
        raise Diverged("a batch in the middle of the run was not measured")
    proposals = run.strategy.ask(ask.size)
    if not proposals:
        raise Diverged("the search proposes less than it did")
    known = run.find_known(proposals)
    if len(known) < len(proposals):
        run.unfinished = proposals
    else:
        run.strategy.tell([run.count(known[one.id], one) for one in proposals])
