"""One of a few given integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from schedlang.distributions._checks import MAX_CANDIDATES, distinct_ints, normalised
from schedlang.distributions._finite import FiniteTable, finite_table
from schedlang.distributions.base import Decision, Distribution, Rng
from schedlang.distributions.registry import register_distribution


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class Categorical(Distribution):
    """One of ``candidates``; the decision is the value itself, not its position.

    Parameters
    ----------
    candidates: 1 to 65,536 distinct ints, in any order; a search steps through them in numeric
        order.
    probs: weights >= 0, one for each candidate; stored as probabilities that sum to 1. None, the
        default, makes all candidates equally likely. A candidate of weight 0 is not in the support.
    """

    kind: ClassVar[str] = "categorical"

    candidates: tuple[int, ...]
    probs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        owner = "Categorical"
        candidates = distinct_ints(owner, "candidates", self.candidates, MAX_CANDIDATES)
        object.__setattr__(self, "candidates", candidates)
        probs = normalised(owner, "probs", self.probs, len(candidates))
        object.__setattr__(self, "probs", probs)

    def _table(self) -> FiniteTable:
        return finite_table(self.candidates, self.probs)

    def probabilities(self) -> tuple[float, ...]:
        """Probability of each candidate, in the order of ``candidates``."""
        if self.probs is not None:
            return self.probs
        return (1.0 / len(self.candidates),) * len(self.candidates)

    def sample(self, rng: Rng) -> int:
        return self._table().sample(rng)

    def log_prob(self, d: object) -> float:
        return self._table().log_prob(d)

    def permits(self, d: object) -> bool:
        return self._table().permits(d)

    def support(self) -> Iterator[int]:
        """Yield the values with P > 0 in ascending order."""
        return self._table().support()

    def size(self) -> int:
        return len(self._table().values)

    def neighbours(self, d: Decision) -> tuple[int, ...]:
        """Return the next lower and the next higher value."""
        self.require(d)
        return self._table().neighbours(cast("int", d))

    def propose(self, d: Decision, rng: Rng) -> tuple[int, float]:
        """Propose a neighbour or draw from the prior, with probability 1/2 each."""
        self.require(d)
        return self._table().propose(cast("int", d), rng)

    def origin(self) -> int:
        """Return the most probable value, the smallest in a tie."""
        return self._table().mode()

    def repair(self, d: object) -> int:
        """Return the nearest value, the smaller in a tie; the origin if ``d`` is not a number."""
        nearest = self._table().nearest(d)
        return self.origin() if nearest is None else nearest

    @property
    def n_outputs(self) -> None:
        return None
