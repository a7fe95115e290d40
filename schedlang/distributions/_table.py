"""A table of values with probabilities, for supports that are short enough to list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, TypeVar

from schedlang.distributions._drawing import Rng, cumulate, pick_cumulated

V = TypeVar("V")


class Table(Generic[V]):
    """Values with P > 0, in the order of the support, and their probabilities; immutable."""

    def __init__(self, values: Sequence[V], weights: Sequence[float]) -> None:
        self.values = tuple(values)
        total = math.fsum(weights)
        self.log_probs = {v: math.log(w / total) for v, w in zip(values, weights, strict=True)}
        self._cumulated = cumulate(weights)

    def sample(self, rng: Rng) -> V:
        return self.values[pick_cumulated(rng, self._cumulated)]

    def mode(self) -> V:
        """Return the most probable value, the first of the support in a tie."""
        return max(self.values, key=self.log_probs.__getitem__)
