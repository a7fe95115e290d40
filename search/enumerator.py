"""Run a space in all ways, in order: one run for each sequence of decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.distributions.base import Decision
from schedlang.errors import InstructionError, InvalidTrace
from schedlang.instructions.choices import StandingChoices

# Evenly spaced values are taken from the first values of a support, at most this many.
_REACH = 100_000
MOST_WAYS = 64
"""Ways through a space up to which a search asks whether it has proposed all programs."""


@dataclass
class OpenSite:
    """A site that the present run has met.

    Attributes
    ----------
    value: of the present run; ``position`` is its number among the values of the site.
    rest: the values that follow.
    rejoined: whether a run has seen what follows when the choices from here on are rolled back.
    """

    value: Decision
    rest: Iterator[Decision]
    position: int = 0
    rejoined: bool = False


class Enumerator:
    """A decider that takes the next sequence of decisions at each run; the last site changes first.

    A site's support may depend on earlier decisions, so it is opened when the program meets it.
    The program goes on alike after choices that are rolled back together, so that part is run once.

    Parameters
    ----------
    points: maximum number of values of each draw, evenly spaced in its support; ``None`` takes all.
    """

    def __init__(self, points: int | None) -> None:
        self._points = points
        self._sites: list[OpenSite] = []
        self._changed = -1
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
        """Note whether what follows was run before."""
        first = self._standing.roll_back(count)
        if first is None:
            return
        site = self._sites[first]
        if site.rejoined and first <= self._changed < self._met and self._repeated is None:
            self._repeated = self._met
        site.rejoined = True

    def _take(self, distribution: Distribution, points: int | None) -> Decision:
        if self._met == len(self._sites):
            values = spaced(distribution, points)
            at = len(self._sites)
            position = self._stored[at][0] if at < len(self._stored) else 0
            value = next(islice(values, position, None))
            self._sites.append(OpenSite(value, values, position))
        value = self._sites[self._met].value
        self._met += 1
        return value

    # -- runs ------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Go on to the next sequence after a run; ``False`` when there is none."""
        if self._repeated is not None:
            del self._sites[self._repeated :]
        while self._sites:
            last = self._sites[-1]
            value = next(last.rest, None)
            if value is not None:
                last.value = value
                last.position += 1
                self._begin(len(self._sites) - 1)
                return True
            self._sites.pop()
        return False

    def _begin(self, changed: int) -> None:
        self._changed = changed
        self._met = 0
        self._repeated = None
        self._standing = StandingChoices()

    def save(self) -> list[Any]:
        """Return where each site stands before a run, as JSON values."""
        return [[site.position, site.rejoined] for site in self._sites]

    def load(self, stored: Sequence[Any], run: Callable[[], object]) -> None:
        """Continue with what ``save`` returned; ``run`` runs the program, to open the sites."""
        self._stored = [(int(position), bool(rejoined)) for position, rejoined in stored]
        run()
        del self._sites[len(stored) :]
        for site, (_, rejoined) in zip(self._sites, self._stored, strict=True):
            site.rejoined = rejoined
        self._stored = []
        self._begin(len(stored) - 1)


def spaced(distribution: Distribution, points: int | None) -> Iterator[Decision]:
    """Yield at most ``points`` values of a support, in order, evenly spaced from first to last.

    Of a support with more than 100,000 values, the first 100,000 count. ``None`` gives all.
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


class Completeness:
    """Whether all programs of a space are known: it runs the space in order, at most 64 times.

    It stops at the first program that is not known, and goes on from there once that one is, so
    that asking again costs little.

    Parameters
    ----------
    run: runs the program of the space with a decider, and returns its structural key.
    """

    def __init__(self, run: Callable[[Enumerator], str]) -> None:
        self._run = run
        self._enumerator = Enumerator(None)
        self._left = MOST_WAYS
        self._key: str | None = None
        self._ended = False

    def reached(self, known: Callable[[str], bool]) -> bool:
        """Return whether each program of the space is ``known`` by its structural key."""
        while not self._ended and self._left:
            if self._key is None:
                with suppress(InvalidTrace, InstructionError):  # no program
                    self._key = self._run(self._enumerator)
            if self._key is not None and not known(self._key):
                return False
            self._key = None
            self._left -= 1
            self._ended = not self._enumerator.advance()
        return self._ended
