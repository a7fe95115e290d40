"""What a run tells about itself while it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from schedlang.measurement import Measurement
from schedlang.search import Strategy


class Progress(Protocol):
    """Is told of each measurement, and of what the run does."""

    def update(self, measurement: Measurement, search: Strategy) -> None:
        """Count one measurement of a candidate of ``search``."""

    def enter(self, phase: str) -> None:
        """Say what the run does now: ``"exploring"``."""

    def compare_with(self, latency: float, *, complete: bool) -> None:
        """Take the latency of the unscheduled program, in seconds; not ``complete``, a bound."""

    def split(self, seconds: Mapping[str, float]) -> None:
        """Take the seconds that went into each part of the run, as ``TuneResult.time_split``."""
