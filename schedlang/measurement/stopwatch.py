"""Wall time by activity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.measurement.clock import SYSTEM, Clock


class Stopwatch:
    """Adds up wall time by activity. While an inner activity runs, the outer one's time stands.

    Attributes
    ----------
    clock: tells the time; the session sets it for what runs within it.
    seconds: of each activity so far.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def timing(self, activity: str) -> Iterator[None]:
        """Count the ``with`` block as this activity."""
        self._note()
        self._running.append(activity)
        try:
            yield
        finally:
            self._note()
            self._running.pop()

    def add(self, activity: str, seconds: float) -> None:
        """Count seconds that have passed since the latest activity began as this one's."""
        self.seconds[activity] += seconds
        if self._running:
            self.seconds[self._running[-1]] -= seconds

    def take(self) -> dict[str, float]:
        """Return the seconds so far, and begin again at zero."""
        taken, self.seconds = dict(self.seconds), defaultdict(float)
        return taken

    def _note(self) -> None:
        now = self.clock.now()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now
