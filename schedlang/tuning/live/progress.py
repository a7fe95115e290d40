"""What a run tells about itself while it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from schedlang.measurement import Measurement


class Progress(Protocol):
    """Is told of each measurement, and of what the run does."""

    def update(self, measurement: Measurement, rejected: int, report: str = "") -> None:
        """Count one measurement.

        ``rejected`` is the number of traces that did not become candidates, ``report`` the search's
        own. Candidates that the measurer rejected before they ran are counted with them.
        """

    def enter(self, phase: str) -> None:
        """Say what the run does now: ``"exploring"``."""

    def compare_with(self, latency: float, *, complete: bool) -> None:
        """Take the latency of the unscheduled program, in seconds; not ``complete``, a bound."""

    def split(self, seconds: Mapping[str, float]) -> None:
        """Take the seconds that went into each part of the run, as ``TuneResult.time_split``."""
