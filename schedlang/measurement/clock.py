"""The clock of a session: all that a run does by the time asks it."""

from __future__ import annotations

import time
from typing import Any


class Clock:
    """The system's clock. A simulator derives from it, and tells another time.

    A measurer that has an attribute ``clock`` gives it to the session that measures with it.
    """

    def now(self) -> float:
        """Return seconds since some moment; they never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; ``seconds`` says how long."""
        time.sleep(seconds)


SYSTEM = Clock()


def clock_of(measurer: Any) -> Clock:
    """Return the clock that a measurer tells; the system's where it tells none."""
    found = getattr(measurer, "clock", None)
    return found if isinstance(found, Clock) else SYSTEM
