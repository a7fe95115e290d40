"""The fastest candidates of a run, and the finals between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from schedlang.database import Record
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurement
from schedlang.measurement.finals import Finals, choose
from schedlang.tvm.program import structural_key

Remeasure = Callable[[Sequence[Candidate]], Sequence[Measurement]]


class Leader(NamedTuple):
    """A candidate, as it was measured and as it is made; ``program`` is its structural key."""

    record: Record
    schedule: Schedule
    program: str


class Leaders:
    """The fastest candidates so far, each program once.

    Parameters
    ----------
    most: how many to keep, 1 or more.
    verified: keep only those whose results were compared.
    """

    def __init__(self, most: int, *, verified: bool) -> None:
        self._most = most
        self._verified = verified
        self._leaders: list[Leader] = []

    def add(self, record: Record, schedule: Schedule) -> None:
        """Take in a candidate that was measured, if it is one of the fastest."""
        if not self.wants(record):
            return
        found = Leader(record, schedule, structural_key(schedule.mod))
        others = [leader for leader in self._leaders if leader.program != found.program]
        same = [leader for leader in self._leaders if leader.program == found.program]
        others.append(min(same + [found], key=_latency))
        self._leaders = sorted(others, key=_latency)[: self._most]

    def wants(self, record: Record) -> bool:
        """Whether it is one of the fastest."""
        if not record.ok or (self._verified and not record.verified):
            return False
        full = len(self._leaders) == self._most
        return not full or record.latency < self._leaders[-1].record.latency

    @property
    def fastest_first(self) -> Sequence[Leader]:
        """In the order of their latencies."""
        return self._leaders

    def hold_finals(self, remeasure: Remeasure) -> tuple[Finals | None, Counter[str]]:
        """Time all against each other, and order them by that.

        Those that fail are no leaders any more. Returns what the samples of the others say, by the
        rank of each before (0 was the fastest), None if there is no other; and how many failed, by
        status.
        """
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
