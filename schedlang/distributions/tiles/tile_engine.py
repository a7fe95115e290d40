"""What the distributions of tiles need of their supports, and the proposals on all of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from schedlang.distributions._drawing import PRIOR_JUMP, Rng, cumulate, pick_cumulated

Factors: TypeAlias = tuple[int, ...]


class Line(NamedTuple):
    """Decisions that split a product over levels i < j in another way than the current one.

    Attributes
    ----------
    factors: of level j, ascending; level i takes the rest of ``product``.
    weights: of the splits, up to a common factor.
    current: the factor of level j of the current decision; 0 if that is not on this line.
    mass: integer weight of all decisions on the line but the current one.
    """

    i: int
    j: int
    product: int
    factors: list[int]
    weights: list[int]
    current: int
    mass: int

    def draw(self, rng: Rng) -> int:
        """Draw a factor of level j other than the current one, in proportion to the weights."""
        weights = list(self.weights)
        if self.current:
            weights[self.factors.index(self.current)] = 0
        return self.factors[pick_cumulated(rng, cumulate(weights))]


class TileEngine(ABC):
    """The weighted tiles of one distribution; equal distributions share one.

    Attributes
    ----------
    n: number of factors.
    total: sum of the integer weights of all tiles; 0 if there is none.
    """

    n: int
    total: int

    @abstractmethod
    def sample(self, rng: Rng) -> Factors:
        """Draw a tile in proportion to the weights."""

    @abstractmethod
    def log_prob(self, d: Factors) -> float:
        """Return the natural logarithm of the probability of a permitted tile."""

    @abstractmethod
    def weight_of(self, d: Factors) -> int:
        """Return the integer weight of a permitted tile."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of tiles with a weight above 0."""

    @abstractmethod
    def support(self) -> Iterator[Factors]:
        """Yield the tiles in lexicographic order, innermost factor most significant."""

    @abstractmethod
    def mode(self) -> Factors:
        """Return the most probable tile, the first in support order in a tie."""

    @abstractmethod
    def repair(self, wanted: Factors) -> Factors:
        """Return the permitted tile that keeps most of the wanted factors."""

    @abstractmethod
    def nearest(self, wanted: Factors) -> Factors:
        """Return the permitted tile whose factors are nearest in ratio."""

    @abstractmethod
    def neighbours(self, d: Factors) -> tuple[Factors, ...]:
        """Return the tiles one step from ``d``."""

    @abstractmethod
    def lines(self, d: Factors, weight: int) -> list[Line]:
        """Return the lines through ``d``, whose weight is given. Two tiles share at most one."""

    def propose(self, d: Factors, rng: Rng) -> tuple[Factors, float]:
        """Draw another tile on the lines through ``d`` in proportion to the prior, or from it.

        With W the weight of a tile, Z their sum, and z(d) the sum over the lines through d without
        d, the proposal is q(d2|d) = W(d2) a(d, d2), where a(d, d2) = (1-e) [d2 is on a line] / z(d)
        + e/Z and e = 1/PRIOR_JUMP (e = 1 where d has no lines). The ratio is computed in integers.
        """
        own = self.weight_of(d)
        if own == self.total:
            return d, 0.0
        lines = self.lines(d, own)
        masses = [line.mass for line in lines]
        here = sum(masses)
        if here == 0 or rng.random() * PRIOR_JUMP < 1.0:
            proposed = self.sample(rng)
            if proposed == d:
                return d, 0.0
        else:
            line = lines[pick_cumulated(rng, cumulate(masses))]
            proposed = split(d, line.i, line.j, line.product, line.draw(rng))
        other = self.weight_of(proposed)
        there = sum(line.mass for line in self.lines(proposed, other))
        adjacent = _on_one_line(d, proposed)
        log_ratio = (
            math.log(own)
            - math.log(other)
            + _log_coefficient(self.total, there, adjacent)
            - _log_coefficient(self.total, here, adjacent)
        )
        return proposed, log_ratio


def split(d: Factors, i: int, j: int, product: int, factor: int) -> Factors:
    """Return ``d`` with ``factor`` at level j and the rest of ``product`` at level i."""
    changed = list(d)
    changed[i] = product // factor
    changed[j] = factor
    return tuple(changed)


def _log_coefficient(total: int, moves: int, adjacent: bool) -> float:
    """Return log a(d, d2) of ``propose``; ``moves`` is the sum z(d) over the lines through d."""
    if moves == 0:
        return -math.log(total)
    local = (PRIOR_JUMP - 1) * total if adjacent else 0
    return math.log(local + moves) - math.log(PRIOR_JUMP) - math.log(moves) - math.log(total)


def _on_one_line(a: Factors, b: Factors) -> bool:
    """Whether two tiles differ in one inner factor, or in two with the same product."""
    differing = sum(x != y for x, y in zip(a[1:], b[1:], strict=True))
    return differing == 1 or (differing == 2 and math.prod(a[1:]) == math.prod(b[1:]))
