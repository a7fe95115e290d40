"""Parts of spaces that are small enough to be measured as a whole."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from schedlang.distributions import Categorical, Distribution, Thinned
from schedlang.distributions.thinned import MAX_SEED, points_for, thinned_by
from schedlang.errors import InstructionError, InvalidTrace, SpaceError
from schedlang.instructions.choices import Draw, Restriction
from schedlang.instructions.kinds import Choice
from schedlang.language.schedule import Schedule
from schedlang.workloads.workload import Workload

Taken = tuple[str, int]
"""Site of a choice, and number of the option that was taken there."""

Path = tuple[Taken | int, ...]
"""The options that a run takes, in order; an integer is the number of the last ones undone then."""

# Draws that look for sketches, for each that is wanted.
_DRAWS = 32
# Halvings of the interval in which the exponent is sought.
_HALVINGS = 20


class Part:
    """A part of a space: a few paths of choices, and a few decisions of each distribution.

    Parameters
    ----------
    paths: the options that may be taken, after those that stand; where none of them is possible,
        the first one that is.
    exponent: of a support with n decisions, n to this power are kept; 0 to 1.
    seed: says which ones.
    """

    def __init__(self, paths: Iterable[Path], exponent: float, seed: int) -> None:
        self._taken, self._exponent, self._seed = tuple(paths), exponent, seed
        self._offers = _offers(self._taken)

    @property
    def values(self) -> tuple[Any, ...]:
        """Plain values that are equal for equal parts."""
        return self._taken, self._exponent, self._seed

    def restriction(self) -> Restriction:
        """Return the restriction of one run to it."""
        return _Narrow(self._offers, self._exponent, self._seed)

    def __str__(self) -> str:
        count = len(self._taken)
        return (
            f"{count} path{'s' * (count != 1)} of choices and {self._exponent:.3f} of each "
            "distribution's decisions, as a power"
        )


class _Narrow(Restriction):
    """The restriction of one run."""

    def __init__(self, offers: Offers, exponent: float, seed: int) -> None:
        self._offers, self._exponent, self._seed = offers, exponent, seed
        self._standing: list[Taken] = []

    def draw(self, distribution: Distribution) -> Distribution:
        if isinstance(distribution, Thinned) or self._exponent >= 1:
            return distribution
        return thinned_by(distribution, self._exponent, self._seed)

    def choice(self, site: str, distribution: Categorical) -> Categorical:
        wanted = self._offers.get((tuple(self._standing), site), set())
        if wanted.isdisjoint(distribution.support()):
            wanted = {next(iter(distribution.support()))}
        weights = zip(distribution.candidates, distribution.probabilities(), strict=True)
        return Categorical(
            distribution.candidates, tuple(w if n in wanted else 0.0 for n, w in weights)
        )

    def chosen(self, site: str, number: int) -> None:
        self._standing.append((site, number))

    def undone(self, count: int) -> None:
        del self._standing[len(self._standing) - count :]


class _Note(Restriction):
    """Restricts nothing, and notes the options that were taken."""

    def __init__(self) -> None:
        self.path: list[Taken | int] = []

    def chosen(self, site: str, number: int) -> None:
        self.path.append((site, number))

    def undone(self, count: int) -> None:
        if count:
            self.path.append(count)


Offers = Mapping[tuple[tuple[Taken, ...], str], Set[int]]
"""Numbers of the options at a site, after the choices that stand there.

Choices that were undone make no difference: the program goes on as if it had never met them.
"""


def _offers(paths: Sequence[Path]) -> Offers:
    offers: dict[tuple[tuple[Taken, ...], str], set[int]] = {}
    for path in paths:
        standing: list[Taken] = []
        for step in path:
            if isinstance(step, int):
                del standing[-step:]
                continue
            site, number = step
            offers.setdefault((tuple(standing), site), set()).add(number)
            standing.append(step)
    return offers


def find_part(
    apply: Callable[[Schedule], object], workload: Workload, size: int, seed: int, sketches: int
) -> Part:
    """Return a part of the space that ``apply`` applies to a schedule; see ``Space.restricted``."""
    for name, value in (("size", size), ("sketches", sketches)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SpaceError(f"{name}={value!r}: give a whole number from 1 on")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise SpaceError(f"seed={seed!r}: give a whole number from 0 to {MAX_SEED}")
    found = _sketches(apply, workload, seed, sketches)
    sizes = list(found.values())

    def ways(exponent: float) -> int:
        return sum(math.prod(points_for(one, exponent) for one in sketch) for sketch in sizes)

    low, high = 0.0, 1.0
    if ways(high) > size:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if ways(middle) <= size else (low, middle)
        high = low
    return Part(found, high, seed)


def _sketches(
    apply: Callable[[Schedule], object], workload: Workload, seed: int, most: int
) -> dict[Path, list[int]]:
    """Return paths of choices that draws take, with the sizes of the draws' distributions."""
    rng = random.Random(seed)
    found: dict[Path, list[int]] = {}
    known: set[tuple[tuple[str, Any], ...]] = set()
    refused: Exception | None = None
    for _ in range(_DRAWS * most):
        note = _Note()
        sch = Schedule(workload, decider=Draw(random.Random(rng.getrandbits(63))), restriction=note)
        try:
            apply(sch)
        except (InvalidTrace, InstructionError) as error:
            refused = error
            continue
        sketch = tuple(sch.trace.choices.items())
        if sketch not in known:
            known.add(sketch)
            sites = (one for one in sch.trace.instructions if not isinstance(one.kind, Choice))
            found[tuple(note.path)] = [
                one.distribution.size() for one in sites if one.distribution is not None
            ]
        if len(found) >= most:
            break
    if not found:
        raise SpaceError(f"no draw from this space gives a program; the last one: {refused}")
    return found
