"""One of a few given integers: the base of Categorical and ComputeLocation."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from schedlang.distributions._checks import MAX_CANDIDATES, as_number, distinct_ints, normalised
from schedlang.distributions._drawing import Rng
from schedlang.distributions._table import Table
from schedlang.distributions.base import Decision, Distribution


@dataclass(frozen=True, slots=True, repr=False)
class FiniteDistribution(Distribution):
    """One of ``candidates``; the decision is the value itself, and values are ordered as numbers.

    Methods look probabilities up in a table, which equal distributions share.
    """

    candidates: tuple[int, ...]
    probs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        owner = type(self).__name__
        candidates = distinct_ints(owner, "candidates", self.candidates, MAX_CANDIDATES)
        self._check(candidates)
        object.__setattr__(self, "candidates", candidates)
        probs = normalised(owner, "probs", self.probs, len(candidates))
        object.__setattr__(self, "probs", probs)

    def _check(self, candidates: tuple[int, ...]) -> None:
        """Raise DistributionError for candidates that a subclass does not take."""

    def _table(self) -> Table[int]:
        return _table(self.candidates, self.probs)

    def sample(self, rng: Rng) -> int:
        return self._table().sample(rng)

    def log_prob(self, d: object) -> float:
        return self._table().log_probs.get(d, -math.inf) if type(d) is int else -math.inf

    def permits(self, d: object) -> bool:
        return type(d) is int and d in self._table().log_probs

    def support(self) -> Iterator[int]:
        """Yield the values with P > 0 in ascending order."""
        return iter(self._table().values)

    def size(self) -> int:
        return len(self._table().values)

    def neighbours(self, d: Decision) -> tuple[int, ...]:
        """Return the next lower and the next higher value."""
        return self._beside(self.require(d))

    def propose(self, d: Decision, rng: Rng) -> tuple[int, float]:
        """Propose a neighbour or draw from the prior, with probability 1/2 each.

        Tiles draw from the prior in 1 of 8 cases only. Here the numeric distance between candidates
        often has little meaning.
        """
        here: int = self.require(d)
        if self.size() == 1:
            return here, 0.0
        adjacent = self._beside(here)
        if rng.random() < 0.5:
            proposed = adjacent[int(rng.random() * len(adjacent))]
        else:
            proposed = self.sample(rng)
        if proposed == here:
            return here, 0.0
        return proposed, self._log_q(here, proposed) - self._log_q(proposed, here)

    def _beside(self, d: int) -> tuple[int, ...]:
        values = self._table().values
        position = bisect_left(values, d)
        return values[max(position - 1, 0) : position] + values[position + 1 :][:1]

    def _log_q(self, proposed: int, d: int) -> float:
        """Return log q(proposed | d) up to the common factor 1/2."""
        log_prior = self._table().log_probs[proposed]
        adjacent = self._beside(d)
        if proposed not in adjacent:
            return log_prior
        return math.log(1 / len(adjacent) + math.exp(log_prior))

    def origin(self) -> int:
        """Return the most probable value, the smallest in a tie."""
        return self._table().mode()

    def repair(self, d: object) -> int:
        """Return the nearest value, the smaller in a tie; the origin if ``d`` is not a number."""
        wanted = as_number(d)
        if wanted is None:
            return self.origin()
        return min(self._table().values, key=lambda value: (abs(value - wanted), value))

    @property
    def n_outputs(self) -> None:
        return None


@lru_cache(maxsize=1024)
def _table(candidates: tuple[int, ...], probs: tuple[float, ...] | None) -> Table[int]:
    """Return the table of these parameters, in ascending order; equal distributions share one."""
    weights = probs if probs is not None else (1.0,) * len(candidates)
    kept = sorted((c, w) for c, w in zip(candidates, weights, strict=True) if w > 0.0)
    return Table([value for value, _ in kept], [weight for _, weight in kept])
