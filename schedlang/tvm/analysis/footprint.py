"""How much of each buffer a tile of a block's iterations reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.tvm.analysis.strides import coefficient
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import dtype_of, element_bytes, position_of, variables_in


@dataclass(frozen=True, slots=True)
class Footprint:
    """One buffer that a block reads.

    Attributes
    ----------
    buffer: its name.
    element_bytes: size of an element.
    steps: for each dimension, by how much one step of a block variable moves the index, by the
        variable's position. An index that is no sum of multiples of variables counts as their sum.
    """

    buffer: str
    element_bytes: int
    steps: tuple[tuple[tuple[int, int], ...], ...]

    def elements(self, tile: Sequence[int]) -> tuple[int, ...]:
        """Return the elements along each dimension that ``tile[k]`` values of variable k read."""
        return tuple(1 + sum(step * (tile[k] - 1) for k, step in dim) for dim in self.steps)

    def bytes(self, tile: Sequence[int]) -> int:
        """Return the bytes of the part that contains these elements."""
        return math.prod(self.elements(tile)) * self.element_bytes


def read_footprints(sch: TVMSchedule, block: Any) -> tuple[Footprint, ...]:
    """Return what a block reads, in the order of its signature."""
    statement = get_statement(sch, block)
    variables = [axis.var for axis in statement.iter_vars]
    return tuple(
        Footprint(
            str(region.source.name),
            element_bytes(dtype_of(region.source)),
            tuple(_steps(dom.min, variables) for dom in region.region),
        )
        for region in statement.reads
    )


def _steps(index: Any, variables: list[Any]) -> tuple[tuple[int, int], ...]:
    used = [(position_of(var, variables), var) for var in variables_in(index)]
    return tuple(
        (position, abs(coefficient(index, var) or 1)) for position, var in used if position >= 0
    )
