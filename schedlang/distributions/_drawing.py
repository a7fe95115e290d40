"""Random draws that only call ``random()`` of a generator; tables of short supports."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, Protocol, TypeVar

# One double holds 53 random bits; below this bound a single draw is biased by less than 2**-27.
_SINGLE_DRAW_BOUND = 1 << 26

# 1 in PRIOR_JUMP proposals is a draw from the prior. It makes every proposal kernel irreducible,
# even if weights of 0 split the support.
PRIOR_JUMP = 8


class Rng(Protocol):
    """A source of randomness, such as ``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...


def pick_index(rng: Rng, n: int) -> int:
    """Draw an integer in [0, n) uniformly; ``n`` may be of any size."""
    if n <= _SINGLE_DRAW_BOUND:
        return int(rng.random() * n)
    bits, drawn = 0, 0
    while bits < n.bit_length() + 27:
        drawn = (drawn << 53) | int(rng.random() * (1 << 53))
        bits += 53
    return (drawn * n) >> bits


def cumulate(masses: Sequence[int] | Sequence[float]) -> list[float]:
    """Return cumulative probabilities of positive masses; the last is exactly 1.0.

    Integers may be of any size: the quotient of two integers is correctly rounded.
    """
    sums = list(accumulate(masses))
    total = sums[-1]
    return [partial / total for partial in sums]


def pick_cumulated(rng: Rng, cumulated: Sequence[float]) -> int:
    """Draw an index; ``cumulated`` comes from :func:`cumulate`."""
    return bisect_right(cumulated, rng.random())


def mixture_log_ratio(adjacent: bool, n_here: int, n_there: int, size: int) -> float:
    """Return log q(here|there) - log q(there|here) of a proposal on a uniform support.

    The proposal draws uniformly from ``n_here`` local moves, and in 1 of PRIOR_JUMP cases from all
    ``size`` decisions. ``adjacent``: whether a local move joins the two; local moves are symmetric.
    """
    if not adjacent:
        return 0.0
    jump = 1 / size
    return math.log(((PRIOR_JUMP - 1) / n_there + jump) / ((PRIOR_JUMP - 1) / n_here + jump))


V = TypeVar("V")


class ValueTable(Generic[V]):
    """Values with P > 0, in the order of the support, and their probabilities; immutable."""

    def __init__(self, values: Sequence[V], weights: Sequence[float]) -> None:
        self.values = tuple(values)
        total = math.fsum(weights)
        self.log_probs = {v: math.log(w / total) for v, w in zip(values, weights, strict=True)}
        self._cumulated = cumulate(weights)

    def sample(self, rng: Rng) -> V:
        return self.values[pick_cumulated(rng, self._cumulated)]

    def mode(self) -> V:
        """Return the most probable value, the first of the support in a tie."""
        return max(self.values, key=self.log_probs.__getitem__)
