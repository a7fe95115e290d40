"""How many neighbouring elements a copying block may move at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call
from tvm.sym import Analyzer
from tvm.tirx.function import IndexMap

from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import choice_of, constant, extent_of, found_in, loads_of, mentions


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
        moved = IndexMap([last.var], [expr], None).map_indices([whole * width + step])
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
