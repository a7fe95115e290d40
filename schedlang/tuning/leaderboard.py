"""The fastest programs of a run, and the finals between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from schedlang.database import Record
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurement
from schedlang.measurement.finals import Finals, choose

Remeasure = Callable[[Sequence[Candidate]], Sequence[Measurement]]


class Leader(NamedTuple):
    """One of the fastest programs: its record, and the schedule that makes it."""

    record: Record
    schedule: Schedule


class Leaderboard:
    """The fastest programs so far, each once.

    Parameters
    ----------
    size: number of programs to keep, 1 or more.
    verified: keep only programs whose results were compared.
    """

    def __init__(self, size: int, *, verified: bool) -> None:
        self._size = size
        self._verified = verified
        self._leaders: list[Leader] = []

    def emptied(self) -> Leaderboard:
        """Return an empty leaderboard with the same settings."""
        return Leaderboard(self._size, verified=self._verified)

    def add(self, record: Record, schedule: Schedule) -> None:
        """Enter a measured program if it is one of the fastest."""
        if not self.admits(record):
            return
        key = record.program_key
        same = [leader for leader in self._leaders if leader.record.program_key == key]
        others = [leader for leader in self._leaders if leader.record.program_key != key]
        fastest = min([*same, Leader(record, schedule)], key=_latency)
        self._leaders = sorted([*others, fastest], key=_latency)[: self._size]

    def admits(self, record: Record) -> bool:
        """Whether a record is fast enough to enter."""
        if not record.ok or (self._verified and not record.verified):
            return False
        full = len(self._leaders) == self._size
        return not full or record.latency < self._leaders[-1].record.latency

    @property
    def fastest_first(self) -> Sequence[Leader]:
        """The leaders by latency, lowest first; after the finals, by rank."""
        return self._leaders

    def hold_finals(
        self, remeasure: Remeasure, most: int | None = None
    ) -> tuple[Finals | None, Counter[str]]:
        """Time the leaders against each other and rank them by the result.

        ``most`` is the number of leaders to time, the fastest; by default all. The others are
        removed, and so are leaders that fail. Returns the comparison of those that are left, in
        which the id of a program is its rank before (0 was the fastest), or None where all failed;
        and the number of failures by status.
        """
        self._leaders = self._leaders[:most]
        found = remeasure(
            [Candidate(place, leader.schedule.mod) for place, leader in enumerate(self._leaders)]
        )
        failed = Counter(str(measurement.status) for measurement in found if not measurement.ok)
        samples = {measurement.id: measurement.samples for measurement in found if measurement.ok}
        if not samples:
            self._leaders = []
            return None, failed
        finals = choose(samples)
        self._leaders = [self._leaders[finalist.id] for finalist in finals.ranking]
        return finals, failed


def _latency(leader: Leader) -> float:
    return leader.record.latency
