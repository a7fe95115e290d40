"""How records did in finals, in which programs were timed against each other."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from schedlang.database.record import check_samples
from schedlang.measurement import Status
from schedlang.measurement.measurement import no_latency


@dataclass(frozen=True, slots=True)
class FinalsEntry:
    """How one record did in finals.

    Attributes
    ----------
    record_id: the record of the program.
    held: when the finals were held, in seconds since 1970 (UTC); equal for all of their entries.
    place: 0 for the winner.
    status: how timing it ended; a program that failed is behind all others.
    samples: latencies in seconds, one per round; empty unless ``status`` is OK.

    Raises ``ValueError`` for a negative place, and for samples that a record could not have.
    """

    record_id: int
    held: float
    place: int
    status: Status
    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.place < 0:
            raise ValueError(f"place={self.place}; the winner has 0")
        if (self.status is Status.OK) != bool(self.samples):
            raise ValueError(f"an entry with status {self.status} has {len(self.samples)} samples")
        check_samples(self.samples)

    @property
    def ok(self) -> bool:
        """Whether the program was timed."""
        return self.status is Status.OK

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds; NoLatencyError, a ValueError, if it was not timed."""
        if not self.ok:
            raise no_latency(f"record {self.record_id} in the finals", self.status, "")
        return statistics.median(self.samples)
