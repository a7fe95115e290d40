"""One of a few given integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._finite import FiniteDistribution
from schedlang.distributions.registry import register_distribution


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
