"""Ordered factorizations of an extent: counted, weighted and drawn without enumeration.

All operations use one table: ``ways[i][r]`` is the total weight of the assignments of factors to
levels 0..i-1 (0 is outermost) with product ``r``, for every divisor ``r`` of the extent. Factors
are chosen from the innermost level outwards with one look-up for each level, so sampling, scoring,
enumeration and repair never backtrack. Weights are integers, scaled by a power of two, so counts
are exact and a weight of 0 stays 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations

from schedlang.distributions._parameters import Rng, cumulate, pick_cumulated
from schedlang.distributions.tile_engine import (
    Factors,
    LevelWeights,
    Line,
    TileEngine,
    divisors,
    prime_factors,
    prime_steps,
    split,
    spread_over_levels,
    zeros_of,
)

# Maximum number of table entries cached by one engine. Beyond it (an extent with hundreds of
# divisors) tables are recomputed at each use instead of taking hundreds of megabytes.
_MAX_STORED_ENTRIES = 200_000
# With more divisors than this, levels without weights are drawn prime by prime: one table for each
# (level, product) would take too much memory.
_MAX_TABULATED_DIVISORS = 128
# Maximum number of divisors for finding the mode; the time is quadratic in it.
_MAX_MODE_DIVISORS = 256


class Factorizations(TileEngine):
    """The weighted n-tuples of factors with product ``extent``; immutable but for its caches.

    The innermost factor is at most ``max_innermost_factor``, and the product of the factors from
    ``partition_pos`` on is a multiple of ``innerpart_factor``: equivalently, the product of the
    factors before it divides ``extent / innerpart_factor``.
    """

    def __init__(
        self,
        extent: int,
        n: int,
        max_innermost_factor: int | None,
        partition_pos: int,
        innerpart_factor: int,
        weights: LevelWeights | None,
    ) -> None:
        self.extent = extent
        self.n = n
        self._bounds = (max_innermost_factor, partition_pos, innerpart_factor)
        self._zeros = zeros_of(weights)
        self.partition_pos = partition_pos
        self.outer_extent = extent // innerpart_factor
        self.divisors = divisors(extent)
        self.weighted = bool(weights)
        self.log_weights: tuple[dict[int, float], ...] = tuple({} for _ in range(n))
        for level, pairs in weights or ():
            self.log_weights[level].update({f: math.log(w) for f, w in pairs if w > 0.0})
        self.tables, self.shift = self._integer_weights(weights or (), max_innermost_factor)
        self._ways = self._count_ways()
        # Total scaled weight; without weights, the number of factorizations.
        self.total = sum(
            self.tables[n - 1][f] * self._ways[n - 1][extent // f] for f in self.divisors
        )
        self.log_total = -math.inf
        if self.total:
            self.log_total = math.log(self.total) - self.shift * math.log(2.0)
        self._n_free = self._count_free_levels(weights or ())
        self._tables: dict[tuple[int, int], tuple[list[float], list[int]]] = {}
        self._lines: dict[tuple[int, int, int, int], tuple[list[int], list[int], int]] = {}
        self._stored_entries = 0

    def _integer_weights(
        self, weights: LevelWeights, max_innermost_factor: int | None
    ) -> tuple[list[dict[int, int]], int]:
        """Return the weight of every divisor for each level, and the sum of the binary scales."""
        ones = dict.fromkeys(self.divisors, 1)
        tables = [ones] * self.n
        total_shift = 0
        for level, pairs in weights:
            ratios = {factor: weight.as_integer_ratio() for factor, weight in pairs}
            shift = max(denominator.bit_length() - 1 for _, denominator in ratios.values())
            total_shift += shift
            table = dict.fromkeys(self.divisors, 1 << shift)
            for factor, (numerator, denominator) in ratios.items():
                table[factor] = (numerator << shift) // denominator
            tables[level] = table
        if max_innermost_factor is not None:
            tables[-1] = {
                f: weight if f <= max_innermost_factor else 0 for f, weight in tables[-1].items()
            }
        return tables, total_shift

    def _count_free_levels(self, weights: LevelWeights) -> int:
        """Return the number of outermost levels without weights or constraints.

        Returns 0 if there are few divisors, because drawing from tables is then faster.
        """
        if len(self.divisors) <= _MAX_TABULATED_DIVISORS:
            return 0
        free = min((level for level, _ in weights), default=self.n)
        if self.outer_extent != self.extent:
            free = min(free, self.partition_pos)
        # The innermost level may be bounded.
        return min(free, self.n - 1)

    def _count_ways(self) -> list[dict[int, int]]:
        ways = dict.fromkeys(self.divisors, 0)
        ways[1] = 1
        tables = [ways]
        for level in range(self.n - 1):
            ways = self._add_level(ways, level)
            if level + 1 == self.partition_pos:
                ways = {r: w if self.outer_extent % r == 0 else 0 for r, w in ways.items()}
            tables.append(ways)
        return tables

    def _add_level(self, ways: dict[int, int], level: int) -> dict[int, int]:
        """Return the sum over f | r of weight[level][f] * ways[r / f], for every divisor r."""
        weight = self.tables[level]
        # Most factors have the same weight: sum over all divisors at once, then correct the others.
        common = self._commonest(weight)
        result = dict(ways) if common == 1 else {r: w * common for r, w in ways.items()}
        for r, smaller in prime_steps(self.extent):
            result[r] += result[smaller]
        for factor, w in weight.items():
            if w != common:
                for rest in divisors(self.extent // factor):
                    result[rest * factor] += (w - common) * ways[rest]
        return result

    @staticmethod
    def _commonest(weight: dict[int, int]) -> int:
        counts: dict[int, int] = {}
        for w in weight.values():
            counts[w] = counts.get(w, 0) + 1
        return max(counts, key=counts.__getitem__)

    def splits(self, i: int, j: int, product: int, limit: int) -> tuple[list[int], list[int], int]:
        """Return the splits of ``product`` over levels i and j.

        These are the factors of level j, ascending, their weights, and the sum of the weights. The
        factor of level i must divide ``limit``, a divisor of ``product``.
        """
        key = (i, j, product, limit)
        stored = self._lines.get(key)
        if stored is not None:
            return stored
        outer, inner = self.tables[i], self.tables[j]
        factors: list[int] = []
        weights: list[int] = []
        for factor in divisors(product):
            rest = product // factor
            if limit % rest == 0 and (weight := outer[rest] * inner[factor]):
                factors.append(factor)
                weights.append(weight)
        found = (factors, weights, sum(weights))
        if self._stored_entries < _MAX_STORED_ENTRIES:
            self._stored_entries += len(factors)
            self._lines[key] = found
        return found

    def choices(self, level: int, rest: int) -> tuple[list[float], list[int]]:
        """Return the factors of ``level`` if the product of levels 0..level is ``rest``.

        The result is their cumulative probabilities and the factors, ascending; level >= 1.
        """
        key = (level, rest)
        table = self._tables.get(key)
        if table is not None:
            return table
        weight, ways = self.tables[level], self._ways[level]
        factors: list[int] = []
        masses: list[int] = []
        for factor in self.divisors:
            if factor > rest:
                break
            if rest % factor == 0 and (mass := weight[factor] * ways[rest // factor]):
                factors.append(factor)
                masses.append(mass)
        table = (cumulate(masses), factors)
        if self._stored_entries < _MAX_STORED_ENTRIES:
            self._stored_entries += len(factors)
            self._tables[key] = table
        return table

    def sample(self, rng: Rng) -> Factors:
        factors_drawn = [1] * self.n
        rest = self.extent
        tables = self._tables
        for level in range(self.n - 1, 0, -1):
            if rest == 1:
                break
            if level < self._n_free:
                spread_over_levels(rest, level + 1, factors_drawn, rng)
                return tuple(factors_drawn)
            cumulated, factors = tables.get((level, rest)) or self.choices(level, rest)
            factor = factors[pick_cumulated(rng, cumulated)]
            factors_drawn[level] = factor
            rest //= factor
        factors_drawn[0] = rest
        return tuple(factors_drawn)

    def log_prob(self, d: Factors) -> float:
        if not self.weighted:
            return -self.log_total
        log_weight = 0.0
        for table, factor in zip(self.log_weights, d, strict=True):
            if table:
                log_weight += table.get(factor, 0.0)
        return log_weight - self.log_total

    def weight_of(self, d: Factors) -> int:
        return math.prod(self.tables[level][factor] for level, factor in enumerate(d))

    def count(self) -> int:
        return factorizations(self.extent, self.n, *self._bounds, self._zeros).total

    def support(self) -> Iterator[Factors]:
        """Yield the tuples in lexicographic order, innermost factor most significant."""
        return self._complete(self.n - 1, self.extent, ())

    def _complete(self, level: int, rest: int, inner: Factors) -> Iterator[Factors]:
        if level == 0:
            yield (rest, *inner)
            return
        for factor in self.choices(level, rest)[1]:
            yield from self._complete(level - 1, rest // factor, (factor, *inner))

    def repair(self, wanted: Factors) -> Factors:
        """Return the factorization nearest to ``wanted``, from the innermost level outwards.

        Each level keeps the greatest part that divides the remaining product; level 0 takes the
        rest.
        """
        return self._keep(wanted, lambda factor, target: -math.gcd(factor, target))

    def nearest(self, wanted: Factors) -> Factors:
        """Return the factorization whose factors are nearest in ratio, from the innermost level on.

        Level 0 takes the rest.
        """
        return self._keep(wanted, lambda factor, target: abs(math.log(factor) - math.log(target)))

    def _keep(self, wanted: Factors, distance: Callable[[int, int], float]) -> Factors:
        """Return the factors with the smallest distances, the smallest of equals."""
        kept = [1] * self.n
        rest = self.extent
        for level in range(self.n - 1, 0, -1):
            target = wanted[level]
            factors = self.choices(level, rest)[1]
            kept[level] = min(factors, key=lambda f: (distance(f, target), f))
            rest //= kept[level]
        kept[0] = rest
        return tuple(kept)

    def mode(self) -> Factors:
        """Return the most probable factorization, the first in support order in a tie.

        Without weights, or with too many divisors to compare: the first of the support.
        """
        if not self.weighted or len(self.divisors) > _MAX_MODE_DIVISORS:
            return next(self.support())
        best = [{r: int(bool(w)) for r, w in self._ways[0].items()}]
        for level in range(self.n - 1):
            best.append(
                {
                    r: max(self.tables[level][f] * best[level][r // f] for f in divisors(r))
                    if self._ways[level + 1][r]
                    else 0
                    for r in self.divisors
                }
            )
        mode = [1] * self.n
        rest = self.extent
        for level in range(self.n - 1, 0, -1):
            weight, inner = self.tables[level], best[level]
            mode[level] = max(divisors(rest), key=lambda f: (weight[f] * inner[rest // f], -f))
            rest //= mode[level]
        mode[0] = rest
        return tuple(mode)

    def lines(self, d: Factors, weight: int) -> list[Line]:
        found = []
        for i, j in combinations(range(self.n), 2):
            product = d[i] * d[j]
            if product > 1:
                factors, weights, total = self._splits_of(d, i, j)
                own = self.tables[i][d[i]] * self.tables[j][d[j]]
                mass = (total - own) * (weight // own)
                found.append(Line(i, j, product, factors, weights, d[j], mass))
        return found

    def neighbours(self, d: Factors) -> tuple[Factors, ...]:
        """Return the decisions with one prime factor moved between two levels.

        If weights of 0 leave gaps in the support, also the numerically next decisions along each
        line, so that a step can cross a gap.
        """
        found: dict[Factors, None] = {}
        for i, j in combinations(range(self.n), 2):
            here, product = d[j], d[i] * d[j]
            factors = self._splits_of(d, i, j)[0]
            steps = []
            for prime in prime_factors(product):
                if here % prime == 0:
                    steps.append(here // prime)
                if d[i] % prime == 0:
                    steps.append(here * prime)
            permitted = set(factors)
            steps = [factor for factor in steps if factor in permitted]
            if self._zeros:
                position = factors.index(here)
                steps += factors[max(position - 1, 0) : position]
                steps += factors[position + 1 : position + 2]
            for factor in steps:
                found[split(d, i, j, product, factor)] = None
        return tuple(found)

    def _splits_of(self, d: Factors, i: int, j: int) -> tuple[list[int], list[int], int]:
        """Return the splits of the product of levels i and j that leave ``d`` permitted."""
        product = d[i] * d[j]
        limit = product
        if i < self.partition_pos <= j:
            # The product of the levels before the partition must divide its share of the extent.
            room = self.outer_extent // math.prod(d[: self.partition_pos])
            limit = math.gcd(room * d[i], product)
        return self.splits(i, j, product, limit)


@lru_cache(maxsize=512)
def factorizations(
    extent: int,
    n: int,
    max_innermost_factor: int | None = None,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    weights: LevelWeights | None = None,
) -> Factorizations:
    """Return the engine of these parameters; equal distributions share one."""
    return Factorizations(extent, n, max_innermost_factor, partition_pos, innerpart_factor, weights)
