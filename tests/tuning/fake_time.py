"""A clock that tests move."""

from __future__ import annotations


class FakeTime:
    """A clock that only runs while a measurer pretends to work."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
