"""A clock that tests move."""

from __future__ import annotations

import time

from schedlang.measurement.clock import Clock


class FakeTime:
    """The module ``time`` with a clock that only runs while a measurer pretends to work."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Played(Clock):
    """It moves when it is told to wait."""

    def __init__(self) -> None:
        self.seconds = 5000.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
