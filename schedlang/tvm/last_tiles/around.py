"""The loops around blocks, and the conditions of blocks as sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from schedlang.tvm.linear import Linear, linear_of


@dataclass(frozen=True)
class Around:
    """What is known of the loops around blocks.

    Attributes
    ----------
    extents: of the loops' variables, which begin with 0.
    outside: variables of loops that are held fixed: one iteration of these runs one tile.
    """

    extents: Mapping[Any, int]
    outside: Sequence[Any]

    def split(self, linear: Linear) -> tuple[Linear, Linear]:
        """Return the terms of loops outside, and the others with the constant."""
        outer = {
            digit: factor
            for digit, factor in linear.terms.items()
            if any(digit.variable.same_as(one) for one in self.outside)
        }
        inner = {digit: factor for digit, factor in linear.terms.items() if digit not in outer}
        return Linear(outer), Linear(inner, linear.constant)

    def less(self, condition: Any) -> Linear | None:
        """Return what is below 0 exactly where a condition holds; None for other conditions."""
        if not isinstance(condition, tirx.LT):
            return None
        left, right = (linear_of(side, self.extents) for side in (condition.a, condition.b))
        return None if left is None or right is None else left.plus(right, -1)
