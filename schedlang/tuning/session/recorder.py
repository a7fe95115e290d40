"""What a run stores besides its trials, and how it shares its programs with other processes.

``RunRecorder`` notes the details of a run as it goes, and stores them in batches. ``Unscheduled``
is the unscheduled program, which is measured and stored as well, and may win. ``share`` divides
the programs of a batch between processes that tune the same workload into one database.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from schedlang.database import Database, Record, Rejections, RunDetails, TrialDetails
from schedlang.errors import DatabaseError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurement, Measurer
from schedlang.measurement.clock import Clock, PhaseLog
from schedlang.search import Proposal
from schedlang.tuning.records import unscheduled_record
from schedlang.tuning.session.resume import RunState

# -- The details of a run -------------------------------------------------------------------------

# Fraction of a run's time that counting the search's rejections may take, approximately.
_COUNTING_PART = 0.001
# ``tile: split at block C``, as ``Target.culprit`` has it.
_CULPRIT = re.compile(r"(?:(?P<module>.+?): )?(?P<instruction>.+?)(?: at block (?P<block>.+))?")


class RunRecorder:
    """Notes when and where the trials of a run were measured, and what was rejected.

    Parameters
    ----------
    state: of the run. One that is not stored keeps its details in memory only.
    database: where they go.
    clock: of the session.

    Attributes
    ----------
    log: of the run's own phases in this call.
    """

    def __init__(self, state: RunState, database: Database, clock: Clock) -> None:
        earlier = RunDetails() if state.run_id is None else database.details(state.run_id)
        self.log = PhaseLog(clock)
        self._clock = clock
        self._state = state
        self._database = database
        self._new: list[TrialDetails] = []
        self._stored = [earlier]
        self._rejections = {one.place: one for one in earlier.rejections}
        self._phases_stored = 0
        self._counted_at = self._counting_took = 0.0

    @property
    def details(self) -> RunDetails:
        """All that was stored, and what earlier calls have stored."""
        trials = tuple(trial for part in self._stored for trial in part.trials)
        phases = tuple(phase for part in self._stored for phase in part.phases)
        return RunDetails().updated(RunDetails(trials, phases, tuple(self._rejections.values())))

    def note(self, record: Record, measurement: Measurement) -> None:
        """Note when and where a candidate was measured, if the measurer tells."""
        if record.id is not None and measurement.phases:
            self._new.append(TrialDetails(record.id, measurement.worker or 0, measurement.phases))

    def end_start(self, measurement: Measurement, seconds: float) -> None:
        """End the start of a run, if this is its first measurement, when the worker was ready.

        That is ``seconds`` ago, when the measurer was asked, where it does not tell.
        """
        if self.log.activity == "start":
            if measurement.phases:
                seconds = max(time.time() - measurement.phases[0].begin, 0.0)
            self.log.enter("search", seconds)

    def store(self) -> None:
        """Store what is new; the rejections only where counting them takes little time."""
        now = self._clock.now()
        count = (now - self._counted_at) * _COUNTING_PART >= self._counting_took
        self._store(self._counted() if count else ())

    def conclude(self, culprits: Iterable[tuple[str, str]]) -> None:
        """Store the rest, which the run's result does without where that fails.

        ``culprits`` are what made programs that were rejected before they ran, as
        ``Target.culprit`` tells it, with the reasons.
        """
        self.log.enter("")
        blamed: Counter[tuple[str, str, str, str]] = Counter()
        for where, reason in culprits:
            parts = _CULPRIT.fullmatch(where)
            found = parts.groupdict(default="") if parts else {"instruction": where}
            place = (found.get(name, "") for name in ("module", "instruction", "block"))
            blamed[(*place, reason)] += 1  # type: ignore[index]
        rejections = [Rejections(*place, count) for place, count in blamed.items()]
        with suppress(DatabaseError):
            self._store([*self._counted(), *rejections])

    def _store(self, rejections: Iterable[Rejections]) -> None:
        phases = self.log.phases
        newer = RunDetails(
            tuple(self._new),
            phases[self._phases_stored :],
            tuple(one for one in rejections if self._rejections.get(one.place) != one),
        )
        if not newer:
            return
        self._stored.append(newer)
        self._new = []
        self._rejections |= {one.place: one for one in newer.rejections}
        if self._state.run_id is not None:
            self._database.add_details(self._state.run_id, newer)
        # The present one is stored again when it has ended.
        self._phases_stored = len(phases) - bool(self.log.activity)

    def _counted(self) -> list[Rejections]:
        """Count what the search refused, by place and reason."""
        started = self._clock.now()
        counts: Counter[tuple[str, str, str, str]] = Counter()
        messages: dict[tuple[str, str, str, str], str] = {}
        for one in self._state.strategy.rejections:
            place = one.module, one.instruction, one.block, one.reason
            counts[place] += 1
            messages.setdefault(place, one.message)
        found = [Rejections(*place, n, messages[place]) for place, n in counts.items()]
        self._counted_at = self._clock.now()
        self._counting_took = self._counted_at - started
        return found


# -- The unscheduled program in a run -------------------------------------------------------------


class Unscheduled:
    """The unscheduled program of a run, measured and stored once; it is no trial.

    A record that the database has of it, of the same run or another, makes measuring it
    unnecessary. Where its measurement was cut off it has no record, and cannot win.

    Parameters
    ----------
    state: of the run.
    blank: the fields that all records of the run share.
    database: where the record goes.
    measurer: measures the workload.

    Attributes
    ----------
    measured: whether it was asked for.
    latency: median latency in seconds. NaN before it is measured, and where time was over first.
    complete: False where ``latency`` is a lower bound.
    record: its record; None without a latency.
    """

    def __init__(
        self, state: RunState, blank: Record, database: Database, measurer: Measurer
    ) -> None:
        self._state = state
        self._blank = blank
        self._database = database
        self._measurer = measurer
        self.measured = False
        self.latency = math.nan
        self.complete = True
        self.record: Record | None = None

    def find(self) -> bool:
        """Take the record that the database has, if any; return whether it was measured."""
        if not self.measured:
            self.record = self._state.find_unscheduled()
            if self.record is not None:
                self.latency = self.record.latency
                self.measured = True
        return self.measured

    def measure(self) -> None:
        """Find its record or measure it, once. TargetError when it cannot be measured."""
        if self.find():
            return
        self.latency = self._measurer.reference_latency
        self.complete = self._measurer.reference_complete
        if self.complete and 0 < self.latency < math.inf:
            workload = self._state.workload
            record = unscheduled_record(self._blank, workload, self.latency)
            [self.record] = self._database.append([record])
        self.measured = True

    def enter(self) -> None:
        """Let it compete with the fastest candidates, if it has a latency."""
        if self.record is not None:
            schedule = Schedule(self._state.workload)
            self._state.leaderboard.add_unscheduled(self.record, schedule)


# -- The programs of a batch, divided between processes -------------------------------------------
#
# Processes that tune the same workload into one database share its programs: each is measured by
# one of them. A run claims the programs that it is going to measure, and takes the others'
# records of programs that they have claimed. A run measures what it has claimed before it waits,
# so two runs never wait for each other.

# How long to wait for other processes, in seconds, while they store no record of what is waited
# for; after that their programs are measured here too.
PATIENCE = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class BatchPart:
    """A part of a batch.

    Attributes
    ----------
    known: proposals that need no measuring, with their records.
    own: proposals to be measured now, before the next part is asked for.
    """

    known: Sequence[tuple[Proposal, Record]] = ()
    own: Sequence[Proposal] = ()


def share(
    state: RunState, proposals: Sequence[Proposal], deadline: float, clock: Clock
) -> Iterator[BatchPart]:
    """Yield parts of a batch until each proposal was in one, or until ``deadline``.

    ``deadline`` is of the ``clock``. Where no other process works on the workload, the first
    parts hold all: what is known, then the rest.
    """
    left = list(proposals)
    claimed: set[int] = set()
    waiting_since = clock.now()
    while left:
        found = state.find_measured(left)
        part = BatchPart(
            [(one, found[one.id]) for one in left if one.id in found],
            [one for one in left if one.id in claimed and one.id not in found],
        )
        left = [one for one in left if one.id not in found and one.id not in claimed]
        if part.known or part.own:
            yield part
            waiting_since = clock.now()
        # Another process may have stored a record just before: it is looked for once more.
        claimed = state.claim(left)
        if left and not claimed:
            now = clock.now()
            if now >= deadline:
                return
            if now - waiting_since >= PATIENCE:
                claimed = {one.id for one in left}
            else:
                clock.sleep(_POLL_SECONDS)
