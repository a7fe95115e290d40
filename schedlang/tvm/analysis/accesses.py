"""Accesses: how a block indexes the buffers that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from schedlang.tvm.parts import axes_of, regions_of
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import extent_of, position_of, variables_in


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
    """

    buffer: str
    dtype: str
    dims: tuple[int | None, ...]
    variables: frozenset[int]


def accesses(sch: TVMSchedule, block: Any, role: str) -> tuple[Access, ...]:
    """Return a block's accesses in the order of its signature; ``role`` is "read" or "write"."""
    stmt = get_statement(sch, block)
    variables = [axis.var for axis in stmt.iter_vars]
    return tuple(_access(region, variables) for region in regions_of(stmt, role))


def block_axes(sch: TVMSchedule, block: Any) -> tuple[tuple[str, int], ...]:
    """Return ``("S" or "R", extent)`` for each block variable; -1 if not constant."""
    return axes_of(get_statement(sch, block))


def _access(region: Any, variables: list[Any]) -> Access:
    dims: list[int | None] = []
    used: set[int] = set()
    for dom in region.region:
        used |= {position_of(var, variables) for var in variables_in(dom.min)}
        plain = isinstance(dom.min, tirx.Var) and extent_of(dom.extent) == 1
        position = position_of(dom.min, variables) if plain else -1
        dims.append(position if position >= 0 else None)
    buffer = region.source
    return Access(str(buffer.name), str(buffer.ty.dtype), tuple(dims), frozenset(used))
