"""One of a few given integers: the base of Categorical and ComputeLocation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from schedlang.distributions._checks import MAX_CANDIDATES, as_number, distinct_ints, normalised
from schedlang.distributions._drawing import Rng, cumulate, pick_cumulated
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

    def _table(self) -> _Table:
        return _table(self.candidates, self.probs)

    def sample(self, rng: Rng) -> int:
        table = self._table()
        return table.values[pick_cumulated(rng, table.cumulated)]

    def log_prob(self, d: object) -> float:
        return self._table().log_probs.get(d, -math.inf) if type(d) is int else -math.inf

    def permits(self, d: object) -> bool:
        return type(d) is int and d in self._table().position

    def support(self) -> Iterator[int]:
        """Yield the values with P > 0 in ascending order."""
        return iter(self._table().values)

    def size(self) -> int:
        return len(self._table().values)

    def neighbours(self, d: Decision) -> tuple[int, ...]:
        """Return the next lower and the next higher value."""
        self.require(d)
        return self._table().neighbours(cast("int", d))

    def propose(self, d: Decision, rng: Rng) -> tuple[int, float]:
        """Propose a neighbour or draw from the prior, with probability 1/2 each.

        Tiles draw from the prior in 1 of 8 cases only. Here the numeric distance between candidates
        often has little meaning.
        """
        self.require(d)
        here, table = cast("int", d), self._table()
        if len(table.values) == 1:
            return here, 0.0
        adjacent = table.neighbours(here)
        if rng.random() < 0.5:
            proposed = adjacent[int(rng.random() * len(adjacent))]
        else:
            proposed = self.sample(rng)
        if proposed == here:
            return here, 0.0
        return proposed, table.log_q(here, proposed) - table.log_q(proposed, here)

    def origin(self) -> int:
        """Return the most probable value, the smallest in a tie."""
        log_probs = self._table().log_probs
        return max(log_probs, key=lambda value: (log_probs[value], -value))

    def repair(self, d: object) -> int:
        """Return the nearest value, the smaller in a tie; the origin if ``d`` is not a number."""
        wanted = as_number(d)
        if wanted is None:
            return self.origin()
        return min(self._table().values, key=lambda value: (abs(value - wanted), value))

    @property
    def n_outputs(self) -> None:
        return None


class _Table:
    """The values with P > 0, ascending, and their probabilities; immutable."""

    def __init__(self, candidates: tuple[int, ...], probs: tuple[float, ...] | None) -> None:
        weights = probs if probs is not None else (1.0,) * len(candidates)
        kept = sorted((c, w) for c, w in zip(candidates, weights, strict=True) if w > 0.0)
        self.values = tuple(value for value, _ in kept)
        self.cumulated = cumulate([weight for _, weight in kept])
        total = math.fsum(weight for _, weight in kept)
        self.log_probs = {value: math.log(weight / total) for value, weight in kept}
        self.position = {value: position for position, value in enumerate(self.values)}

    def neighbours(self, d: int) -> tuple[int, ...]:
        position = self.position[d]
        return self.values[max(position - 1, 0) : position] + self.values[position + 1 :][:1]

    def log_q(self, proposed: int, d: int) -> float:
        """Return log q(proposed | d) up to the common factor 1/2."""
        log_prior = self.log_probs[proposed]
        adjacent = self.neighbours(d)
        if proposed not in adjacent:
            return log_prior
        return math.log(1 / len(adjacent) + math.exp(log_prior))


@lru_cache(maxsize=1024)
def _table(candidates: tuple[int, ...], probs: tuple[float, ...] | None) -> _Table:
    """Return the table of these parameters; equal distributions share one."""
    return _Table(candidates, probs)
