"""Enumeration of a program's runs: every sequence of decisions, one run each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.distributions.base import Decision
from schedlang.instructions.rollback import StandingChoices

# Values of a support that are looked at for evenly spaced ones.
_REACH = 100_000


@dataclass
class Wheel:
    """One site: its present value, which is number ``position`` of those it takes, and the rest.

    ``rejoined``: what follows when the choices from here on are rolled back was seen.
    """

    value: Decision
    rest: Iterator[Decision]
    position: int = 0
    rejoined: bool = False


class Odometer:
    """A decider that takes the next sequence of decisions at each run, the last site turning first.

    A site's support may depend on what was decided before it: it is opened when the program meets
    it. Choices that are rolled back together go on alike, so what follows them is run once.

    Parameters
    ----------
    points: at most so many values of each draw, evenly spaced in its support; None for all.
    """

    def __init__(self, points: int | None) -> None:
        self._points = points
        self._wheels: list[Wheel] = []
        self._turned = -1
        self._met = 0
        self._repeated: int | None = None
        self._standing = StandingChoices()
        self._stored: list[tuple[int, bool]] = []

    # -- the decider -----------------------------------------------------------------------------

    def decide(self, site: str, distribution: Distribution) -> Any:
        return self._take(distribution, self._points)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        self._standing.meet(self._met)
        number = self._take(distribution, None)
        assert isinstance(number, int)
        return number

    def undone(self, count: int) -> None:
        """Find out whether what follows was run before."""
        first = self._standing.roll_back(count)
        if first is None:
            return
        wheel = self._wheels[first]
        if wheel.rejoined and first <= self._turned < self._met and self._repeated is None:
            self._repeated = self._met
        wheel.rejoined = True

    def _take(self, distribution: Distribution, points: int | None) -> Decision:
        if self._met == len(self._wheels):
            values = spaced(distribution, points)
            at = len(self._wheels)
            position = self._stored[at][0] if at < len(self._stored) else 0
            value = next(islice(values, position, None))
            self._wheels.append(Wheel(value, values, position))
        value = self._wheels[self._met].value
        self._met += 1
        return value

    # -- runs ------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Go on to the next sequence after a run; False when there is none."""
        if self._repeated is not None:
            del self._wheels[self._repeated :]
        while self._wheels:
            last = self._wheels[-1]
            value = next(last.rest, None)
            if value is not None:
                last.value = value
                last.position += 1
                self._begin(len(self._wheels) - 1)
                return True
            self._wheels.pop()
        return False

    def _begin(self, turned: int) -> None:
        self._turned = turned
        self._met = 0
        self._repeated = None
        self._standing = StandingChoices()

    def save(self) -> list[Any]:
        """Where each wheel stands before a run, as JSON values."""
        return [[wheel.position, wheel.rejoined] for wheel in self._wheels]

    def load(self, stored: Sequence[Any], run: Callable[[], object]) -> None:
        """Continue with what ``save`` gave; ``run`` runs the program once, to open the wheels."""
        self._stored = [(int(position), bool(rejoined)) for position, rejoined in stored]
        run()
        del self._wheels[len(stored) :]
        for wheel, (_, rejoined) in zip(self._wheels, self._stored, strict=True):
            wheel.rejoined = rejoined
        self._stored = []
        self._begin(len(stored) - 1)


def spaced(distribution: Distribution, points: int | None) -> Iterator[Decision]:
    """At most ``points`` values of a support, in order, evenly spaced from first to last.

    Of a support with more than 100,000 values, the first 100,000 count. None gives all.
    """
    if points is None:
        return iter(distribution.support())
    size = min(distribution.size(), _REACH)
    if size <= points:
        return islice(distribution.support(), size)
    step = max(points - 1, 1)
    numbers = {k * (size - 1) // step for k in range(points)}
    last = max(numbers) + 1
    values = enumerate(islice(distribution.support(), last))
    return (value for number, value in values if number in numbers)
