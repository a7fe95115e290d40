"""A few decisions of another distribution: what a restricted space draws from."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Self

from schedlang.distributions._parameters import MAX_CANDIDATES, ValueTable, check_int
from schedlang.distributions.base import (
    JSON,
    Decision,
    Distribution,
    distribution_from_json,
    distribution_to_json,
    has_at_most,
    register_distribution,
)
from schedlang.distributions.categorical import TableDistribution
from schedlang.errors import DistributionError

# Draws for each decision that is kept; a support that gives fewer has few that are likely.
_DRAWS = 64
MAX_SEED = 2**63 - 1
# In a larger support, what lies between the decisions that are kept is not looked at.
_SEEN = 20_000
# More draws than any support needs to be seen whole.
_ENOUGH = 1 << 60
# Logarithm of the expected number of draws of a decision below which it is there by chance alone.
_RARE = -20.0


@register_distribution
@dataclass(frozen=True, repr=False)
class Thinned(TableDistribution):
    """At most ``points`` decisions of ``base``: a sample that stands for it.

    Which ones are kept depends on ``base``, ``points`` and ``seed`` alone: the origin, and what
    ``base`` draws. They are as likely as what they stand for: draws from a large support are about
    equally likely, whatever ``base`` says, as the likely ones are there more often.

    Parameters
    ----------
    base: the distribution to thin.
    points: 1 to 65,536.
    seed: of the draws, 0 or more.
    exponent: of a distribution with n decisions that takes the place of ``base``, n to this power
        are kept; 0 to 1. None keeps ``points``.

    Two decisions are neighbours where a descent in ``base`` can go from what lies around one to
    what lies around the other. In a support of more than 20,000, they are the next smaller and the
    next larger decision that is kept.
    """

    kind: ClassVar[str] = "thinned"

    base: Distribution
    points: int
    seed: int = 0
    exponent: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.base, Distribution) or isinstance(self.base, Thinned):
            raise DistributionError(f"Thinned(base={self.base!r}): give a distribution to thin")
        check_int("Thinned", "points", self.points, 1, MAX_CANDIDATES)
        check_int("Thinned", "seed", self.seed, 0, MAX_SEED)
        exponent = self.exponent
        if exponent is not None and not (type(exponent) is float and 0 <= exponent <= 1):
            raise DistributionError(f"Thinned(exponent={exponent!r}): give a float from 0 to 1")

    @cached_property
    def _kept(self) -> ValueTable[Decision]:
        return _kept(self)

    @cached_property
    def _adjacent(self) -> Mapping[Decision, tuple[Decision, ...]]:
        return _adjacent(self)

    def _table(self) -> ValueTable[Decision]:
        return self._kept

    def _beside(self, d: Decision) -> tuple[Decision, ...]:
        return self._adjacent[d]

    def origin(self) -> Decision:
        return self.base.origin()

    def repair(self, d: object) -> Decision:
        """Return the permitted decision nearest to what ``base`` makes of ``d``."""
        return self._closest(self.base.repair(d))

    def nearest(self, d: object) -> Decision:
        return self._closest(self.base.nearest(d))

    def _closest(self, d: Decision) -> Decision:
        if self.permits(d):
            return d
        return min(self._kept.values, key=lambda kept: (_distance(kept, d), kept))

    def outputs(self, d: Decision) -> int | tuple[int, ...]:
        return self.base.outputs(d)

    @property
    def n_outputs(self) -> int | None:
        return self.base.n_outputs

    def over(self, base: Distribution) -> Distribution:
        """Return ``base`` thinned in the same way; itself where it is thin by its own making."""
        if isinstance(base, Thinned):
            return base
        if self.exponent is not None:
            return thinned_by(base, self.exponent, self.seed)
        return base if has_at_most(base, self.points) else Thinned(base, self.points, self.seed)

    def to_json(self) -> dict[str, JSON]:
        base: Any = distribution_to_json(self.base)
        stored = {"base": base, "points": self.points, "seed": self.seed}
        return stored if self.exponent is None else {**stored, "exponent": self.exponent}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        if {*stored, "exponent"} != {"base", "points", "seed", "exponent"}:
            raise DistributionError("Thinned: needs base, points and seed, and may have exponent")
        base = distribution_from_json(stored["base"])
        return cls(base, stored["points"], stored["seed"], stored.get("exponent"))


def thinned_by(base: Distribution, exponent: float, seed: int) -> Distribution:
    """Return ``base`` with n to the power of ``exponent`` of its n decisions.

    A support that is kept whole is thinned too: it says how to thin another one in its place.
    """
    return Thinned(base, points_for(base.size(), exponent), seed, exponent)


def points_for(size: int, exponent: float) -> int:
    """Return how many of ``size`` decisions are kept, at most 65,536."""
    return max(round(math.exp(min(exponent * math.log(size), math.log(MAX_CANDIDATES)))), 1)


def _distance(one: Decision, other: Decision) -> float:
    """Return how far two decisions are apart: numbers by difference, sizes by ratio."""
    if isinstance(one, int) or isinstance(other, int):
        return abs(one - other) if isinstance(one, int) and isinstance(other, int) else math.inf
    if len(one) != len(other):
        return math.inf
    pairs = zip(one, other, strict=True)
    return sum(abs(math.log(max(a, 0) + 1) - math.log(max(b, 0) + 1)) for a, b in pairs)


@lru_cache(maxsize=1024)
def _kept(thin: Thinned) -> ValueTable[Decision]:
    """Return the decisions that are kept, in ascending order; equal distributions share one."""
    base, rng = thin.base, random.Random(f"thinned {thin.points} {thin.seed}")
    kept = {base.origin(): None}
    draws = 0
    if has_at_most(base, thin.points):
        kept = dict.fromkeys(base.support())
        draws = _ENOUGH
    while len(kept) < thin.points and draws < _DRAWS * thin.points:
        kept[base.sample(rng)] = None
        draws += 1
    for decision in base.support():
        if len(kept) >= thin.points:
            break
        kept[decision] = None
    values = sorted(kept)
    return ValueTable(values, [_weight(base.log_prob(value), max(draws, 1)) for value in values])


def _weight(log_prob: float, draws: int) -> float:
    """Return the weight of a decision in a sample: p over the probability that it is there.

    That is 1 - (1 - p)^draws. What is drawn surely keeps its probability, and what is there by
    chance stands for others that are as likely (Horvitz and Thompson 1952).
    """
    if log_prob < _RARE - math.log(draws):
        return 1 / draws  # the limit for p that goes to 0
    p = math.exp(log_prob)
    return p / -math.expm1(draws * math.log1p(-p)) if p < 1 else 1.0


@lru_cache(maxsize=1024)
def _adjacent(thin: Thinned) -> Mapping[Decision, tuple[Decision, ...]]:
    """Return the neighbours of each decision that is kept.

    Each decision of ``base`` belongs to the kept one that is fewest steps away; two kept ones are
    neighbours where decisions that belong to them are.
    """
    found: dict[Decision, set[Decision]] = {one: set() for one in thin._kept.values}
    for one, other in _borders(thin):
        found[one].add(other)
        found[other].add(one)
    return {one: tuple(sorted(others)) for one, others in found.items()}


def _borders(thin: Thinned) -> Iterator[tuple[Decision, Decision]]:
    kept = thin._kept.values
    if not has_at_most(thin.base, _SEEN):
        yield from pairwise(kept)
        return
    owner = {one: one for one in kept}
    reached = list(kept)
    for here in reached:  # it grows: the steps from all kept ones, one after the other
        for there in thin.base.neighbours(here):
            if there not in owner:
                owner[there] = owner[here]
                reached.append(there)
            elif owner[there] != owner[here]:
                yield owner[here], owner[there]
