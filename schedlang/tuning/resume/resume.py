"""Continuing an interrupted run without measuring a program twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from schedlang.database import Ask, Record
from schedlang.errors import InvalidTrace, SchedlangError, TraceFormatError
from schedlang.language.schedule import Schedule, Trace
from schedlang.search import Strategy
from schedlang.tuning.resume.journal import Diverged
from schedlang.tuning.resume.state import RunState
from schedlang.workloads.workload import Workload


def resume(fresh: RunState, make_strategy: Callable[[], Strategy]) -> RunState:
    """Restore a run from its journal, ready to continue; nothing is measured.

    Where the search would now propose other programs than it did, as its code has changed, the run
    starts again under a new entry of the journal, and reuses the measurements.

    Parameters
    ----------
    fresh: the run before anything was asked, with a journal; it may be used up.
    make_strategy: makes another search like that of the run.
    """
    journal, warm_start = fresh.journal, fresh.warm_start
    assert journal is not None and warm_start is not None
    known = None if journal.is_new else journal.run.known
    state = fresh
    try:
        if not _restore(state):
            state = _another(state, make_strategy)
        if not journal.run.state:
            warm_start.prepare(state.strategy, known)
        _ask_again(state)
    except Diverged:
        state = _another(state, make_strategy)
        journal.begin_again(warm_start.newest)
        warm_start.prepare(state.strategy)
    return state


def _another(state: RunState, make_strategy: Callable[[], Strategy]) -> RunState:
    """Return the run before anything was asked, with a search of its own."""
    made = make_strategy()
    if made is state.strategy:
        raise SchedlangError(
            f"this {made.name!r} cannot continue its run in the database; give "
            "tune its class or a function that makes it, instead of the strategy itself"
        )
    return RunState(
        state.workload, made, state.leaderboard.emptied(), state.journal, state.warm_start
    )


def _restore(state: RunState) -> bool:
    """Bring a run to its saved state, if it has one; False when that cannot be loaded."""
    assert state.journal is not None
    restored = state.journal.restore(state.strategy)
    if restored is None:
        return False
    records, proposals, leaders = restored
    fastest = _replayed(records, leaders, state.workload)
    if fastest is None:
        state.journal.forget_state()
        return False
    state.records += records
    state.proposals += proposals
    state.earlier += len(records)
    for record, schedule in fastest:
        state.leaderboard.add(record, schedule)
    return True


def _replayed(
    records: Sequence[Record], leaders: Mapping[int | None, str], workload: Workload
) -> list[tuple[Record, Schedule]] | None:
    """Return the fastest records with their schedules; None where one is of another program."""
    by_id = {record.id: record for record in records}
    found = []
    for number, text in leaders.items():
        try:
            record, schedule = by_id[number], Trace.from_json(text, workload).replay()
        except (KeyError, InvalidTrace, TraceFormatError):
            return None
        if schedule.program_key != record.program_key:
            return None
        found.append((record, schedule))
    places = {record.id: place for place, record in enumerate(records)}
    return sorted(found, key=lambda one: places[one[0].id])


def _ask_again(state: RunState) -> None:
    """Repeat the asks after the search's saved state, and tell it their outcomes."""
    assert state.journal is not None
    asked = {r.proposal for r in state.records if r.run_id == state.journal.id}
    for ask in state.journal.asks():
        asked |= _repeat(state, ask)
    if not state.journal.measured <= asked:
        raise Diverged("the search no longer proposes a program that the run measured")


def _repeat(state: RunState, ask: Ask) -> set[int | None]:
    """Repeat one batch; return the ids of its proposals."""
    if state.unfinished:
        raise Diverged("a batch before the last one is not fully measured")
    proposals = state.strategy.ask(ask.size)
    if not proposals:
        raise Diverged("the search proposes fewer programs than before")
    found = state.find_measured(proposals)
    if len(found) < len(proposals):
        state.unfinished = proposals
    else:
        state.strategy.tell([state.reuse(found[one.id], one) for one in proposals])
    return {proposal.id for proposal in proposals}
