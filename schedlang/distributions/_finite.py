"""A table of ints with probabilities, shared by Categorical and ComputeLocation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from schedlang.distributions._checks import as_number
from schedlang.distributions._drawing import Rng, cumulate, pick_cumulated


class FiniteTable:
    """The values with P > 0, ascending, and their probabilities; immutable."""

    def __init__(self, candidates: tuple[int, ...], probs: tuple[float, ...] | None) -> None:
        weights = probs if probs is not None else (1.0,) * len(candidates)
        kept = sorted((c, w) for c, w in zip(candidates, weights, strict=True) if w > 0.0)
        self.values = tuple(value for value, _ in kept)
        self.weights = tuple(weight for _, weight in kept)
        total = math.fsum(self.weights)
        self.log_probs = {value: math.log(weight / total) for value, weight in kept}
        self._position = {value: position for position, value in enumerate(self.values)}
        self._cumulated = cumulate(self.weights)

    def sample(self, rng: Rng) -> int:
        return self.values[pick_cumulated(rng, self._cumulated)]

    def log_prob(self, d: object) -> float:
        return self.log_probs.get(d, -math.inf) if type(d) is int else -math.inf

    def permits(self, d: object) -> bool:
        return type(d) is int and d in self._position

    def support(self) -> Iterator[int]:
        return iter(self.values)

    def neighbours(self, d: int) -> tuple[int, ...]:
        position = self._position[d]
        return self.values[max(position - 1, 0) : position] + self.values[position + 1 :][:1]

    def propose(self, d: int, rng: Rng) -> tuple[int, float]:
        """Propose a neighbour or a draw from the prior, with probability 1/2 each.

        Tiles draw from the prior in 1 of 8 cases only. Here the numeric distance between candidates
        often has little meaning.
        """
        if len(self.values) == 1:
            return d, 0.0
        adjacent = self.neighbours(d)
        if rng.random() < 0.5:
            proposed = adjacent[int(rng.random() * len(adjacent))]
        else:
            proposed = self.sample(rng)
        if proposed == d:
            return d, 0.0
        return proposed, self._log_q(d, proposed) - self._log_q(proposed, d)

    def _log_q(self, proposed: int, d: int) -> float:
        """Return log q(proposed | d) up to the common factor 1/2."""
        log_prior = self.log_probs[proposed]
        adjacent = self.neighbours(d)
        if proposed not in adjacent:
            return log_prior
        return math.log(1 / len(adjacent) + math.exp(log_prior))

    def mode(self) -> int:
        """Return the most probable value, the smallest in a tie."""
        return max(self.values, key=lambda value: (self.log_probs[value], -value))

    def nearest(self, d: object) -> int | None:
        """Return the value nearest to ``d``, the smaller in a tie; None if it is not a number."""
        wanted = as_number(d)
        if wanted is None:
            return None
        return min(self.values, key=lambda value: (abs(value - wanted), value))


@lru_cache(maxsize=1024)
def finite_table(candidates: tuple[int, ...], probs: tuple[float, ...] | None) -> FiniteTable:
    """Return the table of these parameters; equal distributions share one."""
    return FiniteTable(candidates, probs)
