"""Moves between factorizations that change two levels: neighbours and proposals.

Two levels i < j share the product d[i] * d[j]; the permitted splits form a *line*.
"""

from __future__ import annotations

import math
from itertools import combinations

from schedlang.distributions._drawing import PRIOR_JUMP, Rng, cumulate, pick_cumulated
from schedlang.distributions.tiles.divisors import prime_factors
from schedlang.distributions.tiles.factorizations import Factorizations

Factors = tuple[int, ...]


def _line(engine: Factorizations, d: Factors, i: int, j: int) -> tuple[list[int], list[int], int]:
    """Return the line of levels i and j through ``d``: factors of j, their weights, the sum."""
    product = d[i] * d[j]
    limit = product
    if i < engine.partition_pos <= j:
        # The product of the levels before the partition must still divide its share of the extent.
        room = engine.outer_extent // math.prod(d[: engine.partition_pos])
        limit = math.gcd(room * d[i], product)
    return engine.line(i, j, product, limit)


def neighbours(engine: Factorizations, d: Factors) -> tuple[Factors, ...]:
    """Return the decisions with one prime factor moved between two levels.

    If weights of 0 leave gaps in the support, also the numerically next decisions along each line,
    so that a step can cross a gap.
    """
    found: dict[Factors, None] = {}
    for i, j in combinations(range(engine.n), 2):
        if d[i] == d[j] == 1:
            continue
        here, product = d[j], d[i] * d[j]
        factors = _line(engine, d, i, j)[0]
        steps = []
        for prime in prime_factors(product):
            if here % prime == 0:
                steps.append(here // prime)
            if d[i] % prime == 0:
                steps.append(here * prime)
        permitted = set(factors)
        steps = [factor for factor in steps if factor in permitted]
        if engine.has_holes:
            position = factors.index(here)
            steps += factors[max(position - 1, 0) : position] + factors[position + 1 : position + 2]
        for factor in steps:
            found[_split(d, i, j, factor)] = None
    return tuple(found)


def propose(engine: Factorizations, d: Factors, rng: Rng) -> tuple[Factors, float]:
    """Resplit two levels, in proportion to the prior over all such moves, or draw from the prior.

    With W the weight of a decision, Z their sum, and z(d) the sum over the moves from d, the
    proposal is q(d2|d) = W(d2) a(d, d2), where a(d, d2) = (1-e) [d2 is such a move] / z(d) + e/Z
    and e = 1/PRIOR_JUMP (e = 1 where d has no moves). The ratio is computed in integers.
    """
    pairs = list(combinations(range(engine.n), 2))
    own = _weight(engine, d)
    if own == engine.total:
        return d, 0.0
    masses = _move_masses(engine, d, own, pairs)
    here = sum(masses)
    if here == 0 or rng.random() * PRIOR_JUMP < 1.0:
        proposed = engine.sample(rng)
        if proposed == d:
            return d, 0.0
    else:
        i, j = pairs[pick_cumulated(rng, cumulate(masses))]
        factors, weights, _ = _line(engine, d, i, j)
        position = factors.index(d[j])
        drawn = pick_cumulated(rng, cumulate(weights[:position] + weights[position + 1 :]))
        proposed = _split(d, i, j, factors[drawn + (drawn >= position)])
    other = _weight(engine, proposed)
    there = sum(_move_masses(engine, proposed, other, pairs))
    adjacent = sum(a != b for a, b in zip(d, proposed, strict=True)) == 2
    log_ratio = (
        math.log(own)
        - math.log(other)
        + log_coefficient(engine.total, there, adjacent)
        - log_coefficient(engine.total, here, adjacent)
    )
    return proposed, log_ratio


def log_coefficient(total: int, moves: int, adjacent: bool) -> float:
    """Return log a(d, d2) of ``propose``; ``moves`` is the sum z(d) over the moves from d."""
    if moves == 0:
        return -math.log(total)
    local = (PRIOR_JUMP - 1) * total if adjacent else 0
    return math.log(local + moves) - math.log(PRIOR_JUMP) - math.log(moves) - math.log(total)


def _weight(engine: Factorizations, d: Factors) -> int:
    return math.prod(engine.weight[level][factor] for level, factor in enumerate(d))


def _move_masses(
    engine: Factorizations, d: Factors, own: int, pairs: list[tuple[int, int]]
) -> list[int]:
    """Return, for each pair of levels, the weight of all decisions on its line except ``d``."""
    masses = []
    for i, j in pairs:
        if d[i] == d[j] == 1:
            masses.append(0)
            continue
        split = engine.weight[i][d[i]] * engine.weight[j][d[j]]
        masses.append((_line(engine, d, i, j)[2] - split) * (own // split))
    return masses


def _split(d: Factors, i: int, j: int, factor: int) -> Factors:
    changed = list(d)
    changed[i] = d[i] * d[j] // factor
    changed[j] = factor
    return tuple(changed)
