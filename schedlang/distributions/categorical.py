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
    candidates: 1 to 65,536 distinct ints; a search sees them in numeric order, whatever their
        order here.
    probs: weights >= 0, one for each candidate; kept as probabilities that sum to 1, or as None
        if all are equal (the default). A candidate of weight 0 is not in the support.
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
        """P of each candidate, in the order of ``candidates``."""
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
        """Ascending."""
        return self._table().support()

    def size(self) -> int:
        return len(self._table().values)

    def neighbours(self, d: Decision) -> tuple[int, ...]:
        """The next lower and the next higher value."""
        self.require(d)
        return self._table().neighbours(cast("int", d))

    def propose(self, d: Decision, rng: Rng) -> tuple[int, float]:
        """A neighbour or a draw from the prior, each in half of the cases."""
        self.require(d)
        return self._table().propose(cast("int", d), rng)

    def origin(self) -> int:
        """The most probable value, the smallest of several."""
        return self._table().mode()

    def repair(self, d: object) -> int:
        """The nearest value, the smaller of two; the origin for what is not a number."""
        nearest = self._table().nearest(d)
        return self.origin() if nearest is None else nearest

    @property
    def n_outputs(self) -> None:
        return None
