"""Accesses: how a block indexes buffers, how much a tile of its iterations reads, and strides.

A stride says how far a step of a loop moves an access. The strides also tell how many elements one
may move at once, and of how many values of a variable a branch in a block lets one through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import sym, tirx
from tvm.ir import Call
from tvm.sym import Analyzer

from schedlang.tvm.analysis.blocks import moved_variables
from schedlang.tvm.schedule import TVMSchedule, get_realize, get_statement
from schedlang.tvm.statements import axes_of, conjuncts_of, regions_of
from schedlang.tvm.values import (
    choice_of,
    constant,
    dtype_of,
    element_bytes,
    extent_of,
    found_in,
    loads_of,
    mentions,
    position_of,
    variables_in,
)


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


# -- Strides, vectors and branches ----------------------------------------------------------------


def access_strides(sch: TVMSchedule, block: Any, loops: Sequence[Any]) -> list[list[int]] | None:
    """Return the stride, in elements, of every accessed region along each loop.

    The result has a row for each region, reads first, with a number for each loop; 0 if the region
    does not depend on the loop. It is None if a buffer size that is needed is not constant. The
    stride comes from the last index that contains the loop's variable in a sum of constant
    multiples; of several terms with the variable the smallest multiple counts. Other uses of the
    variable are ignored.
    """
    realize = get_realize(sch, block)
    variables = [get_statement(sch, loop).loop_var for loop in loops]
    block_variables = [iter_var.var for iter_var in realize.block.iter_vars]
    rows = []
    for region in (*realize.block.reads, *realize.block.writes):
        starts = [dom.min for dom in region.region]
        indices = tirx.IndexMap(block_variables, starts, None).map_indices(
            list(realize.iter_values)
        )
        shape = list(map(constant, region.source.ty.shape))
        row = [_stride(indices[:], shape, variable) for variable in variables]
        if None in row:
            return None
        rows.append([stride for stride in row if stride is not None])
    return rows


def row_length(sch: TVMSchedule, block: Any, loop: Any, most: int) -> int:
    """Return how many iterations of a loop write neighbouring elements of one row, up to ``most``.

    They are the first ones, in which each writes the element behind that of the one before.
    """
    realize, variable = get_realize(sch, block), get_statement(sch, loop).loop_var
    variables = [iter_var.var for iter_var in realize.block.iter_vars]
    last = realize.block.writes[0].region[-1].min
    (index,) = tirx.IndexMap(variables, [last], None).map_indices(list(realize.iter_values))
    at = tirx.IndexMap([variable], [index], None)
    analyzer = Analyzer()
    places = [at.map_indices([tirx.const(k, variable.ty.dtype)])[0] for k in range(most + 1)]
    for k in range(most):
        if not analyzer.can_prove_equal(places[k + 1] - places[k], 1):
            return k + 1
    return most


def _stride(indices: Sequence[Any], shape: Sequence[int | None], variable: Any) -> int | None:
    """Return the stride of one variable; None if a size that is needed is unknown."""
    size = 1
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        step = coefficient(index, variable)
        if step:
            return step * size
        if extent is None:
            return None
        size *= extent
    return 0


def coefficient(expr: Any, variable: Any) -> int | None:
    """Return the smallest constant factor of a variable in a sum; None if it is in no term."""
    if isinstance(expr, tirx.Var):
        return 1 if expr.same_as(variable) else None
    if isinstance(expr, tirx.Add):
        found = [coefficient(term, variable) for term in (expr.a, expr.b)]
        known = [step for step in found if step is not None]
        return min(known, default=None)
    if isinstance(expr, tirx.Mul):
        for factor, other in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(factor, tirx.IntImm):
                step = coefficient(other, variable)
                return None if step is None else step * int(factor.value)
    return None


def vector_run(sch: TVMSchedule, block: Any, widths: Sequence[int]) -> int:
    """Return the largest width of ``widths`` at which a block's accesses are aligned vectors.

    Along its last variable, each access must be contiguous and start at a multiple of the width, or
    be the same element; and conditions must be the same for all elements of a vector. Else 1.
    """
    stmt = get_statement(sch, block)
    *others, last = stmt.iter_vars
    if not isinstance(stmt.body, tirx.BufferStore):
        return 1
    for width in sorted(widths, reverse=True):
        extent = extent_of(last.dom.extent, 0)
        if width > 1 and extent % width == 0 and _fits(stmt.body, others, last, extent, width):
            return width
    return 1


def _fits(store: Any, others: list[Any], last: Any, extent: int, width: int) -> bool:
    whole = tirx.Var("whole", last.var.ty)
    part = tirx.Var("part", last.var.ty)
    analyzer = Analyzer()
    for axis in others:
        analyzer.bind(axis.var, axis.dom)
    analyzer.bind(whole, tvm.ir.Range(0, extent // width))
    analyzer.bind(part, tvm.ir.Range(0, width))
    choices = map(choice_of, found_in(store.value, (Call, tirx.Select)))
    conditions = [choice[0] for choice in choices if choice is not None]
    accesses = [(store.buffer, store.indices)]
    accesses += ((load.source, load.indices) for load in loads_of(store.value))

    def at(expr: Any, step: Any) -> Any:
        moved = tirx.IndexMap([last.var], [expr], None).map_indices([whole * width + step])
        return analyzer.simplify(moved[0])

    if any(mentions(at(condition, part), [part]) for condition in conditions):
        return False
    for number, (buffer, indices) in enumerate(accesses):
        offset = _offset(buffer, indices)
        first = at(offset, 0)
        step = analyzer.simplify(at(offset, part) - first)
        if number and constant(step) == 0:
            continue
        aligned = analyzer.can_prove_equal(tirx.floormod(first, width), 0)
        if not (aligned and analyzer.can_prove_equal(step, part)):
            return False
    return True


def _offset(buffer: Any, indices: Any) -> Any:
    total = indices[0]
    for extent, index in zip(buffer.ty.shape[1:], indices[1:], strict=True):
        total = total * extent + index
    return total


def branches_along(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Return whether a condition in a block's body depends on a loop around it."""
    moved = moved_variables(sch, block, loop)
    return any(mentions(condition, moved) for condition, _ in _branches(sch, block))


def condition_strides(sch: TVMSchedule, block: Any) -> list[int]:
    """Return the stride of each block variable: a stride of n makes 1 of n values non-zero.

    Strides come from conditions ``floormod(index, n) == constant``, alone or joined by "and",
    outside which the value is 0. With an index linear in the variable, the stride is n divided by
    its greatest common divisor with the coefficient. Several conditions give the least common
    multiple, none gives 1.
    """
    variables = [iter_var.var for iter_var in get_statement(sch, block).iter_vars]
    strides = [1] * len(variables)
    for index, divisor in _moduli(sch, block):
        for k, variable in enumerate(variables):
            linear = sym.detect_linear_equation(index, [variable])
            coefficient = constant(linear[0]) if linear else None
            if coefficient is not None:
                period = divisor // math.gcd(divisor, coefficient)
                strides[k] = math.lcm(strides[k], period)
    return strides


def _moduli(sch: TVMSchedule, block: Any) -> list[tuple[Any, int]]:
    """Return (index, divisor) of each condition ``floormod(index, divisor) == constant``."""
    found: list[tuple[Any, int]] = []

    conditions = [one for one, otherwise in _branches(sch, block) if _is_zero(otherwise)]
    for part in (part for condition in conditions for part in conjuncts_of(condition)):
        if isinstance(part, tirx.EQ):
            for side, other in ((part.a, part.b), (part.b, part.a)):
                if isinstance(side, tirx.FloorMod) and isinstance(other, tirx.IntImm):
                    divisor = extent_of(side.b)
                    if divisor > 1:
                        found.append((side.a, divisor))
    return found


def _is_zero(value: Any) -> bool:
    return isinstance(value, (tirx.IntImm, tirx.FloatImm)) and float(value.value) == 0.0


def _branches(sch: TVMSchedule, block: Any) -> list[tuple[Any, Any]]:
    """Return each condition in a block's body, and the value if it does not hold."""
    found: list[tuple[Any, Any]] = []
    for node in found_in(get_statement(sch, block).body, (Call, tirx.Select, tirx.IfThenElse)):
        if isinstance(node, tirx.IfThenElse):
            found.append((node.condition, node.else_case))
        elif (choice := choice_of(node)) is not None:
            found.append((choice[0], choice[2]))
    return found
