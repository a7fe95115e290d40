"""Restricted spaces: a part of a space that is small enough to be measured as a whole."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

from schedlang.distributions import Categorical, Distribution, Thinned
from schedlang.distributions.thinned import thinned
from schedlang.errors import InstructionError, InvalidTrace, SpaceError
from schedlang.instructions.choices import Decider, Draw, Restriction
from schedlang.instructions.kinds import Choice
from schedlang.language.schedule import Schedule
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

Path = tuple[int, ...]
"""Numbers of the options that a run takes, at all its choices, in order."""

# Draws that look for sketches, for each that is wanted.
_DRAWS = 32
# Halvings of the interval in which the exponent is sought.
_HALVINGS = 20


class RestrictedSpace(Space):
    """The part of a space on a few paths of choices, with a few decisions of each distribution.

    Parameters
    ----------
    space: the whole.
    paths: the options that may be taken; after others of the program's own making, the first one.
    exponent: of a support with n decisions, n to this power are kept; 0 to 1.
    seed: says which ones.
    """

    def __init__(self, space: Space, paths: Iterable[Path], exponent: float, seed: int) -> None:
        super().__init__(space.modules, space.name)
        self._taken, self._exponent, self._seed = tuple(paths), exponent, seed
        self.part = (self._taken, exponent, seed)

    def _begin(self, workload: Workload | Any, decider: Decider) -> Schedule:
        restriction = _Narrow(self._taken, self._exponent, self._seed)
        return Schedule(workload, decider=decider, restriction=restriction)

    def __repr__(self) -> str:
        count = len(self._taken)
        return (
            f"{super().__repr__()} restricted to {count} path{'s' * (count != 1)} of choices and "
            f"{self._exponent:.3f} of each distribution's decisions, as a power"
        )


class _Narrow(Restriction):
    """The restriction of one run."""

    def __init__(self, paths: Sequence[Path], exponent: float, seed: int) -> None:
        self._paths, self._exponent, self._seed = paths, exponent, seed
        self._taken: list[int] = []

    def draw(self, distribution: Distribution) -> Distribution:
        if isinstance(distribution, Thinned):
            return distribution
        return thinned(distribution, kept(distribution.size(), self._exponent), self._seed)

    def choice(self, distribution: Categorical) -> Categorical:
        depth = len(self._taken)
        here = tuple(self._taken)
        wanted = {path[depth] for path in self._paths if len(path) > depth and path[:depth] == here}
        if not wanted.intersection(distribution.support()):
            wanted = {next(iter(distribution.support()))}
        weights = zip(distribution.candidates, distribution.probabilities(), strict=True)
        return Categorical(
            distribution.candidates, tuple(w if n in wanted else 0.0 for n, w in weights)
        )

    def chosen(self, number: int) -> None:
        self._taken.append(number)


class _Note(Restriction):
    """Restricts nothing, and notes the options that were taken."""

    def __init__(self) -> None:
        self.path: list[int] = []

    def chosen(self, number: int) -> None:
        self.path.append(number)


def kept(size: int, exponent: float) -> int:
    """Return how many decisions of ``size`` are kept."""
    return max(round(math.exp(exponent * math.log(size))), 1)


def restrict(
    space: Space, workload: Workload, size: int, seed: int, sketches: int
) -> RestrictedSpace:
    """Return a part of a space; see ``Space.restricted``."""
    for name, value in (("size", size), ("sketches", sketches)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SpaceError(f"{name}={value!r}: give a whole number from 1 on")
    if isinstance(space, RestrictedSpace):
        raise SpaceError("the space is restricted already: restrict the one that it was made of")
    found = _sketches(space, workload, seed, sketches)
    sizes = list(found.values())

    def ways(exponent: float) -> int:
        return sum(math.prod(kept(one, exponent) for one in sketch) for sketch in sizes)

    low, high = 0.0, 1.0
    if ways(high) > size:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if ways(middle) <= size else (low, middle)
        high = low
    return RestrictedSpace(space, found, high, seed)


def _sketches(space: Space, workload: Workload, seed: int, most: int) -> dict[Path, list[int]]:
    """Return paths of choices that draws take, with the sizes of the draws' distributions."""
    rng = random.Random(seed)
    found: dict[Path, list[int]] = {}
    known: set[tuple[tuple[str, Any], ...]] = set()
    refused: Exception | None = None
    for _ in range(_DRAWS * most):
        note = _Note()
        sch = Schedule(workload, decider=Draw(random.Random(rng.getrandbits(63))), restriction=note)
        try:
            space.apply(sch)
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
