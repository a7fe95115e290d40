"""Compute locations of a block: inlined, at the root, or at a loop of its consumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from schedlang.distributions._checks import MAX_CANDIDATES, distinct_ints, normalised, refuse
from schedlang.distributions._finite import FiniteTable, finite_table
from schedlang.distributions.base import Decision, Distribution, Rng
from schedlang.distributions.registry import register_distribution

INLINE = -2
ROOT = -1


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class ComputeLocation(Distribution):
    """One of the locations at which a block can be computed, as TVM numbers them.

    Parameters
    ----------
    candidates: distinct ints: -2 inlines the block, -1 leaves it at the root, i >= 0 computes it at
        loop i of its consumer (0 is outermost). A search steps through them in numeric order:
        inlined, root, then increasing depth.
    probs: weights >= 0, one for each candidate, as for Categorical.
    """

    kind: ClassVar[str] = "compute_location"

    candidates: tuple[int, ...]
    probs: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        owner = "ComputeLocation"
        candidates = distinct_ints(owner, "candidates", self.candidates, MAX_CANDIDATES)
        if min(candidates) < INLINE:
            refuse(
                owner,
                "candidates",
                candidates,
                f"{min(candidates)} is not a location; -2 is inline, -1 root, 0 and up are loops",
            )
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
        """Return the most probable location; in a tie the root, where the block was."""
        if self.probs is None and ROOT in self.candidates:
            return ROOT
        return self._table().mode()

    def repair(self, d: object) -> int:
        """Return the nearest value, the smaller in a tie; the origin if ``d`` is not a number."""
        nearest = self._table().nearest(d)
        return self.origin() if nearest is None else nearest

    @property
    def n_outputs(self) -> None:
        return None
