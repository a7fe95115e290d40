"""Where a run stands: its fastest programs, the finals, and what is told of each trial.

``Leaderboard`` keeps the fastest programs of a run, each once, and holds the finals. ``Trial`` is
what callbacks and stop rules are given after each candidate.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schedlang.database import Record
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.contest import FEWEST_ROUNDS
from schedlang.measurement.finals import FEWEST_SAMPLES, Finals, choose, could_win, undisputed
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.targets import Target
from schedlang.targets.measure.verification import REMOTE_FINAL_REPEATS
from schedlang.workloads.workload import Workload

# -- The fastest programs of a run, and the finals between them -----------------------------------

# The unscheduled program is timed less carefully than candidates: it takes part in the finals when
# it is slower than the fastest by no more than this, and candidates when they are no slower than it
# by more than this.
_NEAR = 1.5

# Calls of a finalist in the fewest rounds, and before them: one to time it, and one to verify it.
_CALLS = 2 * FEWEST_ROUNDS
_FIRST_CALLS = 2

Remeasure = Callable[[Sequence[Candidate], float], Sequence[Measurement]]
"""Times candidates; the second argument is how many seconds pass until they are ready, at most.

It returns nothing where time was up before they could be compared.
"""


class Leader(NamedTuple):
    """One of the fastest programs.

    ``seconds`` is what building, timing and verifying it took in the search; 0 if it is not known.
    """

    record: Record
    schedule: Schedule
    seconds: float = 0.0

    @property
    def preparation(self) -> float:
        """Seconds until it is ready for the rounds of the finals, at most."""
        latency = self.record.latency
        comparing = min(REMOTE_FINAL_REPEATS.least * latency, REMOTE_FINAL_REPEATS.longest)
        return max(self.seconds, _FIRST_CALLS * latency) + comparing

    @property
    def least(self) -> float:
        """Seconds that it takes in the finals, with as few rounds as possible."""
        return self.preparation + _CALLS * self.record.latency


class Leaderboard:
    """The fastest programs so far, each once.

    Parameters
    ----------
    size: number of candidates to keep, 1 or more; the unscheduled program comes on top, and as many
        that could be the fastest, as other work leaves doubt about their latencies.
    verified: keep only programs whose results were compared.
    kept: key of a program that stays on top of them, however many are faster; empty for none.

    Attributes
    ----------
    kept: as given.
    failed: finalists that failed, with their measurements.
    """

    def __init__(self, size: int, *, verified: bool, kept: str = "") -> None:
        self.kept = kept
        self._size = size
        self._verified = verified
        self._leaders: list[Leader] = []
        self._unscheduled: str | None = None
        self.failed: list[tuple[Leader, Measurement]] = []

    def emptied(self) -> Leaderboard:
        """Return an empty leaderboard with the same settings."""
        return Leaderboard(self._size, verified=self._verified, kept=self.kept)

    def add(self, record: Record, schedule: Schedule, seconds: float = 0.0) -> None:
        """Enter a measured program if it is one of the fastest; ``seconds`` as in ``Leader``."""
        if not self.admits(record):
            return
        key = record.program_key
        same = [leader for leader in self._leaders if leader.record.program_key == key]
        others = [leader for leader in self._leaders if leader.record.program_key != key]
        fastest = min([*same, Leader(record, schedule, seconds)], key=_latency)
        ranked = sorted([*others, fastest], key=_latency)
        beyond = ranked[self._size :]
        doubted = [one for one in beyond if self._could_lead(one.record, ranked[0].record)]
        doubted = sorted(doubted, key=lambda one: one.record.least)[: self._size]
        stays = [one for one in beyond if one in doubted or one.record.program_key == self.kept]
        self._leaders = ranked[: self._size] + stays

    def admits(self, record: Record) -> bool:
        """Whether a record is fast enough to enter."""
        if not self.may_win(record):
            return False
        if len(self._leaders) < self._size or (self.kept and record.program_key == self.kept):
            return True
        if self._could_lead(record, self._leaders[0].record):
            return True
        return record.most < self._leaders[self._size - 1].record.most

    @staticmethod
    def _could_lead(record: Record, fastest: Record) -> bool:
        """Whether other work leaves so much doubt that it could be faster than the fastest."""
        return not record.certain and record.least < fastest.most

    def may_win(self, record: Record) -> bool:
        """Whether a record has a latency that counts: its results were compared, if they must."""
        return record.ok and (record.verified or not self._verified)

    def add_unscheduled(self, record: Record, schedule: Schedule) -> None:
        """Enter the unscheduled program, once the search has ended; of equal ones it is first.

        Where the search proposed the same program, the faster of both records stands for it.
        """
        self._unscheduled = record.program_key
        same = [leader for leader in self._leaders if self._is_unscheduled(leader)]
        others = [leader for leader in self._leaders if not self._is_unscheduled(leader)]
        fastest = min([record, *(leader.record for leader in same)], key=lambda one: one.most)
        self._leaders = sorted([Leader(fastest, schedule), *others], key=_latency)

    @property
    def fastest_first(self) -> Sequence[Leader]:
        """The leaders by latency, lowest first; after the finals, by rank."""
        return self._leaders

    @property
    def finals_seconds(self) -> float:
        """Seconds that finals would take now, with as few rounds as possible."""
        entered = self._numbered()
        chosen = [entered[number] for number in _contenders(entered)] if entered else []
        return sum(leader.least for leader in chosen) if len(chosen) > 1 else 0.0

    def hold_finals(
        self, remeasure: Remeasure, left: Callable[[], float] = lambda: math.inf
    ) -> tuple[Finals | None, Counter[str]]:
        """Time the leaders that could win against each other, and rank them by the result.

        Nothing is timed where only one could win. Leaders that fail are removed; where all that
        could win fail, it is the turn of the others. ``left`` returns the seconds that are left:
        the fastest that fit into them take part, and at least two. Returns the comparison, in which
        the id of a program is its rank before (0 was the fastest; the unscheduled program has an id
        of its own), or None where all failed or there is too little time; and the number of
        failures by status.
        """
        self.failed = []
        entered = self._numbered()
        finals, before = None, 0
        while entered and finals is None and len(entered) != before:
            before = len(entered)
            finals = self._decide(entered, remeasure, left)
        ranked = [] if finals is None else [one.id for one in finals.ranking]
        self._leaders = [entered.pop(number) for number in ranked] + list(entered.values())
        return finals, Counter(str(measurement.status) for _, measurement in self.failed)

    def _numbered(self) -> dict[int, Leader]:
        """Return the leaders by their ids in finals."""
        ranks = itertools.count()
        return {
            REFERENCE_ID if self._is_unscheduled(leader) else next(ranks): leader
            for leader in self._leaders
        }

    def _decide(
        self, entered: dict[int, Leader], remeasure: Remeasure, left: Callable[[], float]
    ) -> Finals | None:
        chosen = _contenders(entered)
        first = entered[chosen[0]].record
        if len(chosen) == 1 and _is_well_known(chosen[0], first):
            return undisputed(chosen[0], first.samples)
        fit = _fitting([entered[number] for number in chosen], left())
        if fit < min(2, len(chosen)):
            return None
        chosen = chosen[:fit]
        finals = self._time(chosen, entered, remeasure)
        if finals is None or REFERENCE_ID in chosen or REFERENCE_ID not in entered:
            return finals
        if finals.winner.latency < entered[REFERENCE_ID].record.latency:
            return finals
        # The machine is slower than during the search: now it is not certain that the winner is
        # faster than the unscheduled program.
        again = [REFERENCE_ID, *(finalist.id for finalist in finals.ranking)]
        fits = _fitting([entered[number] for number in again], left()) == len(again)
        return self._time(again, entered, remeasure) if fits else None

    def _time(
        self, chosen: Sequence[int], entered: dict[int, Leader], remeasure: Remeasure
    ) -> Finals | None:
        """Time some programs; those that fail are removed from ``entered``.

        None where time was up, and where all fail.
        """
        leaders = [entered[number] for number in chosen]
        measured = remeasure(
            [
                Candidate.of(one.schedule, number, one.record.program_key)
                for number, one in zip(chosen, leaders, strict=True)
            ],
            sum(one.preparation for one in leaders),
        )
        if not measured:
            return None
        found = {measurement.id: measurement for measurement in measured}
        samples = {}
        for number in chosen:
            measurement = found.get(number)
            if measurement is not None and measurement.ok:
                if min(measurement.samples) > 0:
                    samples[number] = measurement.samples
                    continue
                measurement = replace(measurement, status=Status.SUSPICIOUS_TIME)
            leader = entered.pop(number)
            if measurement is not None:
                self.failed.append((leader, measurement))
        return choose(samples, incumbent=REFERENCE_ID) if samples else None

    def _is_unscheduled(self, leader: Leader) -> bool:
        return leader.record.program_key == self._unscheduled


def _contenders(entered: dict[int, Leader]) -> list[int]:
    """Return the programs that could win, the fastest first."""
    first, *others = entered
    fastest = entered[first].record

    def could(number: int) -> bool:
        least = entered[number].record.least
        if REFERENCE_ID in (first, number):
            return least <= _NEAR * fastest.latency
        return not _is_well_known(first, fastest) or could_win([least], fastest.samples)

    return [first, *filter(could, others)]


def _fitting(leaders: Sequence[Leader], seconds: float) -> int:
    """Return how many of these programs can be timed in this time."""
    return sum(end <= seconds for end in itertools.accumulate(one.least for one in leaders))


def _is_well_known(number: int, record: Record) -> bool:
    # The sample of the unscheduled program is a median.
    return number == REFERENCE_ID or (len(record.samples) >= FEWEST_SAMPLES and record.certain)


def _latency(leader: Leader) -> float:
    return leader.record.most


# -- One measured candidate, and where the run stands after it ------------------------------------


class Gain(NamedTuple):
    """A moment at which a run found a faster program than before.

    ``trials`` counts the candidates until then, this one included. ``seconds`` is the wall time
    that the run had used; gains of earlier calls have that of the beginning of this call.
    ``latency`` is in seconds.
    """

    trials: int
    seconds: float
    latency: float


@dataclass(frozen=True)
class Trial:
    """What callbacks and stop rules are given after each candidate.

    Attributes
    ----------
    record: the candidate and its measurement; ``record.status`` says whether it failed.
    workload, target: what is tuned, and for which machine.
    trials: number of candidates so far, this one and those of earlier calls included. Candidates
        that were rejected before they ran do not count.
    seconds: wall time that the run has used, that of earlier calls included.
    begun: the part of ``seconds`` that earlier calls had used.
    gains: each moment at which the best latency fell, oldest first; earlier calls' included.
    reused: whether the database had the record, so that nothing was measured.
    doubts: each moment at which other work left it open whether the best latency fell, oldest
        first; their latencies are lower bounds.
    """

    record: Record
    workload: Workload = field(repr=False)
    target: Target = field(repr=False)
    trials: int
    seconds: float
    begun: float = 0.0
    gains: Sequence[Gain] = field(default=(), repr=False)
    reused: bool = False
    doubts: Sequence[Gain] = field(default=(), repr=False)

    @property
    def best(self) -> float:
        """The lowest latency so far in seconds, of programs that may win; infinite before any.

        Unless ``verify`` is False, programs may win whose results were compared.
        """
        return self.gains[-1].latency if self.gains else math.inf

    def best_before(self, *, trials: float | None = None, seconds: float | None = None) -> float:
        """Return what ``best`` was ``trials`` trials or ``seconds`` seconds ago."""
        latency = math.inf
        for gain in self.gains:
            if self._is_within(gain, trials, seconds):
                break
            latency = gain.latency
        return latency

    def in_doubt(self, *, trials: float | None = None, seconds: float | None = None) -> bool:
        """Whether one of the last ``trials``, or within ``seconds``, may be faster than ``best``.

        Other work on the machine disturbed its samples, and its lower bound is below ``best``.
        """
        return any(
            one.latency < self.best and self._is_within(one, trials, seconds)
            for one in reversed(self.doubts)
        )

    def _is_within(self, gain: Gain, trials: float | None, seconds: float | None) -> bool:
        return (trials is not None and gain.trials > self.trials - trials) or (
            seconds is not None and gain.seconds > self.seconds - seconds
        )
