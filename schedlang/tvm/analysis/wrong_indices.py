"""Indices of buffers that TVM 0.27 computes wrongly.

Before code generation TVM rewrites every index with its analysis of iterators. Where one ``//`` or
``%`` is inside another and both operands have a constant term, this loses the inner constant:
``((j + 35) % 36 + 35) % 36`` becomes ``(j + 35) % 36``. The inner one may be in the binding of a
block's variable, where ``compute_at`` puts it. Here the same analysis is asked what it
makes of an index, and the two are compared at points of the index's domain.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, PrimType, Range, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer, iter_map_simplify
from tvm.tirx.function import IndexMap as TVMIndexMap
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm.schedule import (
    HeldProgram,
    TVMSchedule,
    copy_schedule,
    get_block,
    get_module,
    get_statement,
    new_schedule,
)

_undefined_vars = tirx.analysis._ffi_api.UndefinedVars
Inline = Callable[[TVMSchedule, Any], None]
Move = Callable[[TVMSchedule], None]
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)
# A domain of more points is sampled.
_MOST_POINTS = 256


def wrong_indices(mod: IRModule, function: str = "main") -> list[str]:
    """Return the accesses with an index that TVM computes wrongly, such as ``"x[(j + 1) % 8]"``.

    An index that depends on data, or on a loop whose extent is not constant, is computed as it is.
    """
    found: list[str] = []
    domains: dict[Any, Range] = {}
    bound: dict[Any, Any] = {}

    def note_loop(loop: Any) -> None:
        domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)

    def look_into(realize: Any) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            domains[axis.var] = axis.dom
            # TVM puts a value in the variable's place; only one that divides can go wrong there.
            if _divisions(value):
                bound[axis.var] = _with_values(value, bound)
        for access in _accesses(realize.block):
            indices = [_with_values(index, bound) for index in access.indices]
            if any(_is_wrong(index, domains) for index in indices):
                text = f"{_buffer_name(access)}[{', '.join(map(str, indices))}]"
                if text not in found:
                    found.append(text)

    body = mod[function].body
    structural_walk(body, (tirx.For, note_loop))
    structural_walk(body, (SBlockRealize, look_into))
    return found


def wrong_when_inlined(sch: TVMSchedule, block: Any, inline: Inline) -> str | None:
    """Return an access that TVM would compute wrongly after ``inline(sch, block)``; None if none.

    Accesses that are wrong already do not count. Raises what ``inline`` raises.
    """
    if not divides_in_indices(sch, block):
        return None
    before = HeldProgram(get_module(sch))
    trial, same_block = _copied(sch, block)
    inline(trial, same_block)
    return _first_new(before, trial)


def wrong_when_moved(
    sch: TVMSchedule, block: Any, move: Callable[[TVMSchedule], None]
) -> str | None:
    """Return an access that TVM would compute wrongly after ``move(sch)``; None if there is none.

    ``move`` computes ``block`` elsewhere; handles of ``sch`` are valid in the copy that it gets.
    None where there is no such copy. Raises what ``move`` raises.
    """
    if not divides_in_indices(sch, block):
        return None
    before = HeldProgram(get_module(sch))
    trial = copy_schedule(sch)
    if trial is None:
        return None
    move(trial)
    return _first_new(before, trial)


def divides_in_indices(sch: TVMSchedule, block: Any) -> bool:
    """Whether an index of one of a block's accesses has a ``//`` or a ``%``."""
    accesses = _accesses(get_statement(sch, block))
    return any(_divisions(index) for access in accesses for index in access.indices)


def _first_new(before: HeldProgram, trial: TVMSchedule) -> str | None:
    known = wrong_indices(before.mod)
    return next((text for text in wrong_indices(get_module(trial)) if text not in known), None)


def _copied(sch: TVMSchedule, block: Any) -> tuple[TVMSchedule, Any]:
    """Return a schedule in the same state, and the same block in it."""
    copied = copy_schedule(sch)
    if copied is not None:
        return copied, block
    again = new_schedule(get_module(sch), detail=True)
    return again, get_block(again, str(get_statement(sch, block).name_hint), None)


def _accesses(block: Any) -> list[Any]:
    found: list[Any] = []
    for part in (block.body, block.init):
        if part is not None:
            structural_walk(part, [(TensorLoad, found.append), (tirx.BufferStore, found.append)])
    return found


def _with_values(expr: Any, bound: Mapping[Any, Any]) -> Any:
    if not bound:
        return expr
    return structural_map(expr, (tirx.Var, lambda var: bound.get(var, var)))


def _buffer_name(access: Any) -> str:
    buffer = access.source if isinstance(access, TensorLoad) else access.buffer
    return str(buffer.name)


def _divisions(expr: Any) -> list[Any]:
    found: list[Any] = []
    for kind in _DIVISIONS:
        structural_walk(expr, (kind, found.append))
    return found


def _is_wrong(index: Any, domains: Mapping[Any, Any]) -> bool:
    if not any(_divisions(division.a) for division in _divisions(index)):
        return False
    variables = [var for var in _undefined_vars(index, [])[:] if isinstance(var.ty, PrimType)]
    ranges = {var: dom for var, dom in domains.items() if any(var.same_as(v) for v in variables)}
    values = [_constant_range(dom) for dom in ranges.values()]
    if len(ranges) < len(variables) or not all(values):
        return False
    analyzer = Analyzer()
    for var, dom in ranges.items():
        analyzer.bind(var, dom)
    # TVM simplifies an index before it analyses the iterators, which resolves some divisions.
    simple = analyzer.simplify(index)
    rewritten = list(iter_map_simplify([simple], ranges, True, "nocheck"))
    if not rewritten or rewritten[0].same_as(simple):
        return False
    both = TVMIndexMap(list(ranges), [index, rewritten[0]], None)
    for point in _points([known for known in values if known is not None]):
        right, wrong = both.map_indices(
            [tirx.IntImm(v.ty, x) for v, x in zip(ranges, point, strict=True)]
        )[:]
        if int(right) != int(wrong):
            return True
    return False


def _constant_range(dom: Any) -> range | None:
    least, extent = getattr(dom.min, "value", None), getattr(dom.extent, "value", None)
    return None if least is None or extent is None else range(int(least), int(least + extent))


def _points(values: Sequence[range]) -> Iterator[tuple[int, ...]]:
    if math.prod(map(len, values)) <= _MOST_POINTS:
        return itertools.product(*values)
    generator = random.Random(0)
    return (tuple(map(generator.choice, values)) for _ in range(_MOST_POINTS))
