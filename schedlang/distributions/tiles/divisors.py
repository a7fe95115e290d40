"""Divisors and prime factors of extents, and drawing factorizations prime by prime."""

from __future__ import annotations

import math
from functools import lru_cache

from schedlang.distributions._drawing import Rng, cumulate, pick_cumulated


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
