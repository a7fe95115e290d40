"""Accesses: how a block indexes buffers, and how much of each a tile of its iterations reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from schedlang.tvm.analysis.strides import coefficient
from schedlang.tvm.parts import axes_of, regions_of
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import dtype_of, element_bytes, extent_of, position_of, variables_in


@dataclass(frozen=True, slots=True)
class Access:
    """One buffer that a block reads or writes.

    Attributes
    ----------
    buffer: its name.
    dtype: its element type.
    dims: for each dimension the position of the block variable that indexes it; None if the index
        is another expression, or a range.
    variables: positions of all block variables in the indices.
    quotients: for each dimension ``(v, c)`` where its index is block variable v divided by c and
        rounded down; c is 1 for the variable itself. None if the index is another expression.
    """

    buffer: str
    dtype: str
    dims: tuple[int | None, ...]
    variables: frozenset[int]
    quotients: tuple[tuple[int, int] | None, ...]


def accesses(sch: TVMSchedule, block: Any, role: str) -> tuple[Access, ...]:
    """Return a block's accesses in the order of its signature; ``role`` is "read" or "write"."""
    stmt = get_statement(sch, block)
    variables = [axis.var for axis in stmt.iter_vars]
    return tuple(_access(region, variables) for region in regions_of(stmt, role))


def block_axes(sch: TVMSchedule, block: Any) -> tuple[tuple[str, int], ...]:
    """Return ``("S" or "R", extent)`` for each block variable; -1 if not constant."""
    return axes_of(get_statement(sch, block))


def _access(region: Any, variables: list[Any]) -> Access:
    used: set[int] = set()
    for dom in region.region:
        used |= {position_of(var, variables) for var in variables_in(dom.min)}
    quotients = tuple(_quotient(dom, variables) for dom in region.region)
    dims = tuple(one[0] if one is not None and one[1] == 1 else None for one in quotients)
    buffer = region.source
    return Access(str(buffer.name), str(buffer.ty.dtype), dims, frozenset(used), quotients)


def _quotient(dom: Any, variables: list[Any]) -> tuple[int, int] | None:
    """Return the variable of an index, and by what it is divided; None for other expressions."""
    index, divisor = dom.min, 1
    if isinstance(index, tirx.FloorDiv):
        index, divisor = index.a, extent_of(index.b)
    if not isinstance(index, tirx.Var) or extent_of(dom.extent) != 1 or divisor < 1:
        return None
    position = position_of(index, variables)
    return (position, divisor) if position >= 0 else None


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
