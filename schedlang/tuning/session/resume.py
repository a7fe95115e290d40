"""Going on with a run that was interrupted: its state, restored without measuring a program twice.

``resume`` brings a search to where its journal ends: from a saved state if there is one, then by
asking again and telling the recorded outcomes. ``RunState`` is the search of a run and the
records that it was told.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from schedlang.database import Ask, Record
from schedlang.database.programs import replayed
from schedlang.errors import InvalidTrace, SchedlangError, TraceFormatError
from schedlang.interpreters.stored_trace import same_steps
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Status
from schedlang.search import Outcome, Proposal, Strategy
from schedlang.tuning.identity import identity
from schedlang.tuning.kernels.warm_start import WarmStart
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.session.journal import Diverged, Journal, new_run, open_journal, release_kept
from schedlang.workloads.workload import Workload

__all__ = [
    "Journal",
    "RunState",
    "identity",
    "new_run",
    "open_journal",
    "release_kept",
    "resume",
]


# -- A run, restored from its journal -------------------------------------------------------------


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


# -- The state of a run ---------------------------------------------------------------------------


@dataclass
class RunState:
    """A search and the records that it was told; starts with a search that was asked nothing.

    Attributes
    ----------
    workload: the tuned workload.
    strategy: the search.
    leaderboard: the fastest of its programs.
    journal: stores the run in the database; ``None`` stores nothing.
    warm_start: what earlier runs give; ``None`` ignores them.
    records: in the order in which the search was told them, starting with earlier calls'.
    proposals: the proposal of each of them; None where its trace is not the record's, as another
        run has found the program on another way.
    entered: number of them that only take part in the end, as runs beside this one measured them.
    earlier: number of them that were not measured in this call.
    unfinished: proposals of the batch that an earlier call left partly unmeasured.
    """

    workload: Workload
    strategy: Strategy
    leaderboard: Leaderboard
    journal: Journal | None = None
    warm_start: WarmStart | None = None
    records: list[Record] = field(default_factory=list)
    proposals: list[int | None] = field(default_factory=list)
    entered: int = 0
    earlier: int = 0
    unfinished: list[Proposal] = field(default_factory=list)

    @property
    def trials(self) -> int:
        """Number of candidates that were measured: all but the rejected ones, which never ran."""
        ran = sum(record.status is not Status.REJECTED for record in self.records)
        return ran - self.entered

    @property
    def rejected_last(self) -> int:
        """Number of candidates in a row, up to now, that were rejected."""
        latest = reversed(self.records)
        return sum(
            1 for _ in itertools.takewhile(lambda one: one.status is Status.REJECTED, latest)
        )

    @property
    def run_id(self) -> int | None:
        """Id of the run in the database; ``None`` if it is not stored."""
        return None if self.journal is None else self.journal.id

    def add(self, record: Record, proposal: Proposal, seconds: float = 0.0) -> None:
        """Take in a measured program; ``seconds`` is what this call spent on measuring it."""
        same = record.proposal == proposal.id and record.run_id == self.run_id
        if not same:
            same = same_steps(record.trace_json, proposal.trace.to_json())
        self.records.append(record)
        self.proposals.append(proposal.id if same else None)
        self.leaderboard.add(record, proposal.schedule, seconds)

    def add_unproposed(self, record: Record, schedule: Schedule, seconds: float = 0.0) -> None:
        """Take in a measured program that the search did not propose."""
        self.records.append(record)
        self.proposals.append(None)
        self.leaderboard.add(record, schedule, seconds)

    def enter(self, records: Sequence[Record]) -> None:
        """Let records of runs beside this one win: those whose programs it has not measured."""
        known = {one.program_key for one in self.records}
        for record in records:
            schedule = None if record.program_key in known else replayed(record, self.workload)
            if schedule is not None and schedule.program_key == record.program_key:
                known.add(record.program_key)
                self.add_unproposed(record, schedule)
                self.entered += 1
                self.earlier += 1

    def reuse(self, record: Record, proposal: Proposal) -> Outcome:
        """Add a record of an earlier call or another run; return the outcome to tell."""
        self.add(record, proposal)
        self.earlier += 1
        return Outcome(proposal.id, as_measurement(record, proposal.id))

    def find_unscheduled(self) -> Record | None:
        """Return a record of the unscheduled program, of this run or of another, if any."""
        if self.journal is None:
            return None
        if self.journal.unscheduled is not None or self.warm_start is None:
            return self.journal.unscheduled
        return self.warm_start.find_unscheduled()

    def find_measured(self, proposals: Sequence[Proposal]) -> dict[int, Record]:
        """Return the records of proposals that need no measuring, by the proposal's id.

        ``Diverged`` when a proposal is not the program that the run measured under its id.
        """
        found: dict[int, Record] = {}
        if self.journal is None:
            return found
        for proposal in proposals:
            record = self.journal.find_measured(proposal)
            if record is None and self.warm_start is not None:
                record = self.warm_start.find_measured(
                    proposal.program_key, self.leaderboard, self.journal.id
                )
            if record is not None:
                found[proposal.id] = record
        return found

    def claim(self, proposals: Sequence[Proposal]) -> set[int]:
        """Claim programs to measure; return the ids of those that no other run is measuring.

        A run that takes no records of others claims nothing, and measures them all.
        """
        taken: Set[str] = frozenset()
        reuses = self.warm_start is not None and self.warm_start.reuses
        if proposals and self.journal is not None and reuses:
            taken = self.journal.claim([one.program_key for one in proposals])
        return {one.id for one in proposals if one.program_key not in taken}
