"""The latency of a record: that of the newest finals that it was in, else that of the search."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.database.record import FinalsEntry, Record
from schedlang.measurement.finals import Interval, median_interval
from schedlang.measurement.latency import describe_latency
from schedlang.measurement.measurement import no_latency

if TYPE_CHECKING:
    from schedlang.database.database import Database


@dataclass(frozen=True, slots=True)
class Timing:
    """The one latency that every part of the library gives for a record.

    In finals, programs are timed in turns: what one measures of a program is comparable with the
    others there, and was not selected for being low, as the fastest of a search is.

    Attributes
    ----------
    record: the record.
    entry: how it did in the newest finals that it was in; None where it was in none.
    """

    record: Record
    entry: FinalsEntry | None = None

    @property
    def samples(self) -> Sequence[float]:
        """Latencies in seconds; NoLatencyError, a ValueError, where the record has none."""
        if self.entry is not None:
            return self.entry.samples
        if not self.record.ok:
            record = self.record
            raise no_latency(f"record {record.id}", record.status, record.message)
        return self.record.samples

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds; NoLatencyError where the record has none."""
        return statistics.median(self.samples)

    @property
    def interval(self) -> Interval:
        """Confidence interval of the median."""
        return median_interval(self.samples)

    @property
    def source(self) -> str:
        """Where the samples are from: ``"finals"`` or ``"search"``."""
        return "finals" if self._held else "search"

    def describe(self, flops: float = 0.0) -> str:
        """Return the latency as text, and that of the search where finals came after it."""
        text = describe_latency(self.latency, flops)
        if not (self._held and self.record.ok):
            return text
        return f"{text} in the finals ({describe_latency(self.record.latency)} in the search)"

    @property
    def _held(self) -> bool:
        """Whether it was timed again; where only one program could win, finals take its samples."""
        return self.entry is not None and self.entry.samples != self.record.samples


def timing_of(record: Record, entries: Iterable[FinalsEntry]) -> Timing:
    """Return the timing of a record; ``entries`` may be those of other records, too."""
    own = [one for one in entries if one.ok and one.record_id == record.id]
    return Timing(record, max(own, key=lambda one: one.held, default=None))


def timing_in(database: Database, record: Record) -> Timing:
    """Return the timing of a record of a database."""
    keys = record.workload_key, record.target_key, record.toolchain_key
    return timing_of(record, database.finals(*keys))
