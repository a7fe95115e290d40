"""The details of a run: noted as it goes, and stored in batches."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from schedlang.database import Database, Record, Rejections, RunDetails, TrialDetails
from schedlang.errors import DatabaseError
from schedlang.measurement import Measurement
from schedlang.measurement.clock import Clock
from schedlang.measurement.phase import PhaseLog
from schedlang.tuning.resume import RunState

# Fraction of a run's time that counting the search's rejections may take, approximately.
_COUNTING_PART = 0.001
# ``tile: split at block C``, as ``Target.culprit`` has it.
_CULPRIT = re.compile(r"(?:(?P<module>.+?): )?(?P<instruction>.+?)(?: at block (?P<block>.+))?")


class Recorder:
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
