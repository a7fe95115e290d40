"""Distributions whose decisions and probabilities stand in a table."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from schedlang.distributions._drawing import Rng, Table
from schedlang.distributions.base import Decision, Distribution


class TableDistribution(Distribution):
    """Looks everything up in a table; a subclass gives the table, and what lies beside a decision.

    ``_beside`` is symmetric.
    """

    __slots__ = ()

    @abstractmethod
    def _table(self) -> Table[Any]:
        """Return the decisions, in the order of the support, with their probabilities."""

    @abstractmethod
    def _beside(self, d: Any) -> tuple[Any, ...]:
        """Return the neighbours of a decision of the support."""

    def sample(self, rng: Rng) -> Any:
        return self._table().sample(rng)

    def log_prob(self, d: object) -> float:
        return self._table().log_probs.get(d, -math.inf) if _is_decision(d) else -math.inf

    def permits(self, d: object) -> bool:
        return _is_decision(d) and d in self._table().log_probs

    def support(self) -> Iterator[Any]:
        """Yield the decisions with P > 0 in ascending order."""
        return iter(self._table().values)

    def size(self) -> int:
        return len(self._table().values)

    def neighbours(self, d: Decision) -> tuple[Any, ...]:
        return self._beside(self.require(d))

    def propose(self, d: Decision, rng: Rng) -> tuple[Any, float]:
        """Propose a neighbour or draw from the prior, with probability 1/2 each.

        Tiles draw from the prior in 1 of 8 cases only. Here the distance between decisions often
        has little meaning.
        """
        here = self.require(d)
        if self.size() == 1:
            return here, 0.0
        adjacent = self._beside(here)
        if adjacent and rng.random() < 0.5:
            proposed = adjacent[int(rng.random() * len(adjacent))]
        else:
            proposed = self.sample(rng)
        if proposed == here:
            return here, 0.0
        return proposed, self._log_q(here, proposed) - self._log_q(proposed, here)

    def _log_q(self, proposed: Any, d: Any) -> float:
        """Return log q(proposed | d) up to the common factor 1/2."""
        log_prior = self._table().log_probs[proposed]
        adjacent = self._beside(d)
        if not adjacent:
            return log_prior + math.log(2)
        if proposed not in adjacent:
            return log_prior
        return math.log(1 / len(adjacent) + math.exp(log_prior))


def _is_decision(d: object) -> bool:
    # True and 1.0 are equal to 1, and are no decisions.
    return type(d) is int or (type(d) is tuple and all(type(one) is int for one in d))
