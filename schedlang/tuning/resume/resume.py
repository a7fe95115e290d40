"""Bringing a run to where it was: nothing is measured twice."""

from __future__ import annotations

import os
from collections.abc import Sequence

from schedlang.database import Ask, Record
from schedlang.errors import InvalidTrace, TraceFormatError
from schedlang.language.schedule import Trace
from schedlang.search import pretrain
from schedlang.tuning.resume.journal import Journal, Restored, newest
from schedlang.tuning.run import TuningRun
from schedlang.tuning.warm_start.measurement_cache import Diverged
from schedlang.tuning.warm_start.suggestions import as_traces, suggestions

# Records of each workload that a cost model is taught, before a run: some 10 ms each.
_TAUGHT = 64
_THREADS = min(os.cpu_count() or 1, 8)


def resume(run: TuningRun, past: Sequence[Record]) -> None:
    """Bring a run to where its journal ends; nothing is measured.

    Where the search would now propose other programs than it did, as its code has changed, the run
    begins again with a journal of its own, and takes over what was measured.

    Parameters
    ----------
    past: records to start from if it begins, or begins again.
    """
    journal = run.journal
    assert journal is not None
    told = journal.restore(run.strategy)
    if told is None:
        journal.forget_state()
        run.begin(run.another_strategy())
        told = Restored([], {})
    if not journal.run.state:
        _warm_up(run, past if journal.is_new else _known_then(run, journal))
    try:
        _take_over(run, told)
        asked = {record.proposal for record in told.records if record.run_id == journal.id}
        for ask in journal.asks():
            asked |= _ask_again(run, ask)
        if not journal.measured.keys() <= asked:
            raise Diverged("the run measured what the search does not propose any more")
    except Diverged:
        another = run.another_strategy()
        journal = journal.restart(past)
        run.write_to(journal)
        run.begin(another)
        _warm_up(run, past)
    run.clock.earlier = journal.seconds


def _known_then(run: TuningRun, journal: Journal) -> list[Record]:
    """What the run started from."""
    if not journal.run.known:
        return []
    return suggestions(run.database, run.workload, run.like.target_key, journal.run.known)


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


def _take_over(run: TuningRun, told: Restored) -> None:
    """Count records that the search knows of; the programs of the fastest are made again."""
    run.records += told.records
    run.earlier += len(told.records)
    for record in told.records:
        if record.id in told.leaders:
            try:
                trace = Trace.from_json(told.leaders[record.id], run.workload)
                run.leaders.add(record, trace.replay())
            except (InvalidTrace, TraceFormatError) as error:
                raise Diverged("what was fastest cannot be made again") from error


def _ask_again(run: TuningRun, ask: Ask) -> set[int | None]:
    """What the search was asked before, and told; the ids of what it proposed."""
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
    return {proposal.id for proposal in proposals}
