"""One of a few given integers: Categorical, and the compute locations of a block."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from schedlang.distributions._checks import (
    MAX_CANDIDATES,
    as_number,
    distinct_ints,
    normalised,
    refuse,
)
from schedlang.distributions._drawing import Table
from schedlang.distributions.registry import register_distribution
from schedlang.distributions.tabled import TableDistribution


@dataclass(frozen=True, slots=True, repr=False)
class FiniteDistribution(TableDistribution):
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

    def _beside(self, d: int) -> tuple[int, ...]:
        """Return the next lower and the next higher value."""
        values = self._table().values
        position = bisect_left(values, d)
        return values[max(position - 1, 0) : position] + values[position + 1 :][:1]

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


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class Categorical(FiniteDistribution):
    """One of ``candidates``; the decision is the value itself, not its position.

    Parameters
    ----------
    candidates: 1 to 65,536 distinct ints, in any order; a search steps through them in numeric
        order.
    probs: weights >= 0, one for each candidate; stored as probabilities that sum to 1. None, the
        default, makes all candidates equally likely. A candidate of weight 0 is not in the support.
    """

    kind: ClassVar[str] = "categorical"

    def probabilities(self) -> tuple[float, ...]:
        """Probability of each candidate, in the order of ``candidates``."""
        if self.probs is not None:
            return self.probs
        return (1.0 / len(self.candidates),) * len(self.candidates)


INLINE = -2
ROOT = -1


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class ComputeLocation(FiniteDistribution):
    """One of the locations at which a block can be computed, as TVM numbers them.

    Parameters
    ----------
    candidates: distinct ints: -2 inlines the block, -1 leaves it at the root, i >= 0 computes it at
        loop i of its consumer (0 is outermost). A search steps through them in numeric order: root,
        then increasing depth. Inlining, which is no depth, is one step from all of them.
    probs: weights >= 0, one for each candidate, as for Categorical.
    """

    kind: ClassVar[str] = "compute_location"

    def _check(self, candidates: tuple[int, ...]) -> None:
        if min(candidates) < INLINE:
            refuse(
                "ComputeLocation",
                "candidates",
                candidates,
                f"{min(candidates)} is not a location; -2 is inline, -1 root, 0 and up are loops",
            )

    def _beside(self, d: int) -> tuple[int, ...]:
        """Return the next location outward, the next one inward, and inlining."""
        values = self._table().values
        if d == INLINE:
            return values[1:]
        # Not super(): slotted dataclasses have no such cell for it.
        near = FiniteDistribution._beside(self, d)
        return near if values[0] != INLINE or INLINE in near else (INLINE, *near)

    def origin(self) -> int:
        """Return the most probable location; in a tie the root, where the block was.

        If the root is not among the most probable ones, it is the smallest of them.
        """
        log_probs = self._table().log_probs
        return max(
            log_probs, key=lambda location: (log_probs[location], location == ROOT, -location)
        )
