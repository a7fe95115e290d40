"""What other work on the machine has done to a run so far."""

from __future__ import annotations

from dataclasses import replace

from schedlang.measurement.disturbance import Disturbance, RunDisturbance
from schedlang.targets.core_watch import CoreWatch


class OtherWork:
    """Adds up what other work did to the measurements that a run shows."""

    def __init__(self) -> None:
        self._total = RunDisturbance()
        self._cores = CoreWatch()

    def count(self, one: Disturbance | None) -> None:
        """Add one measurement."""
        self._total = self._total.plus(one)

    def so_far(self) -> RunDisturbance:
        """Return the sum; the cores are read only where the machine is busy."""
        if not self._total.busy:
            return self._total
        return replace(self._total, core_use=self._cores.recent_use())
