"""Compute locations of a block: inlined, at the root, or at a loop of its consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._checks import refuse
from schedlang.distributions._finite import FiniteDistribution
from schedlang.distributions.registry import register_distribution

INLINE = -2
ROOT = -1


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class ComputeLocation(FiniteDistribution):
    """One of the locations at which a block can be computed, as TVM numbers them.

    Parameters
    ----------
    candidates: distinct ints: -2 inlines the block, -1 leaves it at the root, i >= 0 computes it at
        loop i of its consumer (0 is outermost). A search steps through them in numeric order:
        inlined, root, then increasing depth.
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

    def origin(self) -> int:
        """Return the most probable location; in a tie the root, where the block was.

        If the root is not among the most probable ones, it is the smallest of them.
        """
        log_probs = self._table().log_probs
        return max(
            log_probs, key=lambda location: (log_probs[location], location == ROOT, -location)
        )
