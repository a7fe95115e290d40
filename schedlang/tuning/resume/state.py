"""The state of a run: its parts, and the records that the search was told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from schedlang.database import Record
from schedlang.database.programs import replayed
from schedlang.formats.reader import same_steps
from schedlang.language.schedule import Schedule
from schedlang.measurement import Status
from schedlang.search import Outcome, Proposal, Strategy
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.resume.journal import Journal
from schedlang.tuning.warm_start import WarmStart
from schedlang.workloads.workload import Workload


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
