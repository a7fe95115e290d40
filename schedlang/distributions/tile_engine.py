"""What the distributions of tiles share: supports and proposals, divisors, weights of factors.

``TileEngine`` is what they need of their supports, and makes proposals on all of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from schedlang.distributions._parameters import (
    MAX_CANDIDATES,
    PRIOR_JUMP,
    Rng,
    as_weight,
    cumulate,
    pick_cumulated,
    refuse,
    shorten,
)

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


# -- Divisors and prime factors of extents, and factorizations prime by prime ---------------------


@lru_cache(maxsize=4096)
def prime_factors(extent: int) -> tuple[int, ...]:
    """Return the distinct primes that divide ``extent``, ascending."""
    primes: list[int] = []
    candidate = 2
    while candidate * candidate <= extent:
        if extent % candidate == 0:
            primes.append(candidate)
            while extent % candidate == 0:
                extent //= candidate
        candidate += 1 + candidate % 2
    if extent > 1:
        primes.append(extent)
    return tuple(primes)


@lru_cache(maxsize=4096)
def divisors(extent: int) -> tuple[int, ...]:
    """Return all divisors of ``extent``, ascending."""
    found = [1]
    for prime in prime_factors(extent):
        powers = [1]
        while extent % (powers[-1] * prime) == 0:
            powers.append(powers[-1] * prime)
        found = [divisor * power for divisor in found for power in powers]
    return tuple(sorted(found))


@lru_cache(maxsize=256)
def prime_steps(extent: int) -> tuple[tuple[int, int], ...]:
    """Return pairs (r, r/p) for each prime p, r ascending.

    Adding table[r/p] to table[r] along them sums a table over all divisors.
    """
    listed = divisors(extent)
    return tuple((r, r // p) for p in prime_factors(extent) for r in listed if r % p == 0)


def spread_over_levels(rest: int, n: int, factors: list[int], rng: Rng) -> None:
    """Draw factors[0..n-1], initially all 1, uniformly among factorizations of ``rest``."""
    for prime, exponent in _prime_powers(rest):
        for level in range(n - 1, 0, -1):
            if exponent == 0:
                break
            taken = pick_cumulated(rng, _exponent_table(exponent, level))
            if taken:
                factors[level] *= prime**taken
                exponent -= taken
        factors[0] *= prime**exponent


@lru_cache(maxsize=16384)
def _prime_powers(extent: int) -> tuple[tuple[int, int], ...]:
    powers = []
    for prime in prime_factors(extent):
        exponent = 1
        while extent % prime ** (exponent + 1) == 0:
            exponent += 1
        powers.append((prime, exponent))
    return tuple(powers)


@lru_cache(maxsize=1024)
def _exponent_table(exponent: int, n_others: int) -> list[float]:
    """Return cumulative probabilities of the exponent of one level, given ``n_others`` others."""
    return cumulate(
        [math.comb(exponent - taken + n_others - 1, n_others - 1) for taken in range(exponent + 1)]
    )


# -- Weights of tile factors, by level, in a canonical form ---------------------------------------

LevelWeights: TypeAlias = tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
"""``((level, ((factor, weight), ...)), ...)``, both sorted, without weights of 1."""

WeightsLike: TypeAlias = LevelWeights | Mapping[int, Mapping[int, float]]
"""Argument of constructors: level -> factor -> weight, or the stored form."""


def canonical_weights(
    owner: str, weights: WeightsLike | None, extents: Sequence[int], n: int
) -> LevelWeights | None:
    """Return the canonical form; None if no weight has an effect.

    A weight of 1 and the weight of a factor that divides none of ``extents`` have no effect. They
    are dropped, so that equal distributions compare equal. Negative levels count from the
    innermost.
    """
    if weights is None:
        return None
    levels: dict[int, tuple[tuple[int, float], ...]] = {}
    for level, factors in _pairs(owner, weights):
        if type(level) is not int or not -n <= level < n:
            problem = f"level {shorten(level)} must be an int from {-n} to {n - 1}"
            refuse(owner, "weights", weights, problem)
        if level % n in levels:
            refuse(owner, "weights", weights, f"level {level % n} occurs twice")
        kept: dict[int, float] = {}
        for factor, value in _pairs(owner, factors):
            if type(factor) is not int or factor < 1:
                problem = f"factor {shorten(factor)} must be an int of at least 1"
                refuse(owner, "weights", weights, problem)
            if factor in kept:
                refuse(owner, "weights", weights, f"factor {factor} occurs twice at level {level}")
            kept[factor] = as_weight(owner, f"weights[{level}][{factor}]", value)
        levels[level % n] = tuple(
            (factor, weight)
            for factor, weight in sorted(kept.items())
            if weight != 1.0 and any(extent % factor == 0 for extent in extents)
        )
    return tuple((level, pairs) for level, pairs in sorted(levels.items()) if pairs) or None


def zeros_of(weights: LevelWeights | None) -> LevelWeights | None:
    """Return the weights of 0 only; None if there is none."""
    holes = (
        (level, tuple((factor, weight) for factor, weight in pairs if weight == 0.0))
        for level, pairs in weights or ()
    )
    return tuple((level, pairs) for level, pairs in holes if pairs) or None


def _pairs(owner: str, value: object) -> Iterable[tuple[object, object]]:
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = value
    else:
        refuse(owner, "weights", value, "must map levels to factors to weights")
    for count, item in enumerate(items):
        if count >= MAX_CANDIDATES:
            refuse(owner, "weights", value, f"must hold at most {MAX_CANDIDATES} entries")
        if not (isinstance(item, tuple | list) and len(item) == 2):
            refuse(owner, "weights", value, "must hold pairs")
        yield item[0], item[1]
