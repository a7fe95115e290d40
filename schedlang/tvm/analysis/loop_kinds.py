"""TVM's primitives that make loops concurrent or reorder them, for iterations proven apart.

TVM looks at the kinds of blocks' variables. It does not see what iterations pass to each other
through two blocks or another name of a tensor, nor that they store the same elements. It refuses
every loop around a block that reads what it writes or has opaque variables, as a scan does, though
the rows of a scan are apart: there the proof decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.analysis.concurrency import has_independent_iterations, may_run_in_threads
from schedlang.tvm.analysis.races import COOPERATING, PARALLEL, THREADS, VECTORIZED, fault_of
from schedlang.tvm.schedule import (
    ScheduleError,
    TVMSchedule,
    forms,
    get_module,
    get_sref,
    get_statement,
    primitives as _primitives,
)
from schedlang.tvm.schedule.ffi import path_to, replace
from schedlang.tvm.schedule.iterator_maps import may_do_more
from schedlang.tvm.statements import changed_loop
from schedlang.tvm.values import constant, found_in, holds

_REMEDY = "leave it serial, or let each iteration store elements of its own"


def parallel(sch: TVMSchedule, loop: Any) -> None:
    """Call ScheduleParallel; ValueError where iterations are not proven apart."""
    if not has_independent_iterations(sch, loop):
        _require(sch, loop, PARALLEL, _ffi.ScheduleParallel)
    try:
        _ffi.ScheduleParallel(sch, loop)
    except ScheduleError:
        if not may_do_more(sch):
            raise
        _change_kind(sch, loop, tirx.ForKind.PARALLEL)


def may_run_in_parallel(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether the iterations of a loop are proven apart, differ, and start no threads."""
    if has_independent_iterations(sch, loop):
        return True
    stmt = get_statement(sch, loop)
    if not holds(found_in(stmt.body, tirx.Var), stmt.loop_var):
        return False
    if any(int(one.kind) in (PARALLEL, THREADS) for one in found_in(stmt.body, tirx.For)):
        return False
    return fault_of(get_module(sch), stmt.loop_var, PARALLEL) is None


def reorder(sch: TVMSchedule, loops: Sequence[Any]) -> None:
    """Call ScheduleReorder; where TVM refuses, move loops inwards whose iterations are apart.

    If no iteration of a loop accesses what another one stores, whatever the loops inside it do,
    their order among these may change. Loops whose iterations may depend on each other keep their
    order.
    """
    try:
        _ffi.ScheduleReorder(sch, loops)
    except ScheduleError:
        if not may_do_more(sch) or not _reorder_apart(sch, loops):
            raise


def _reorder_apart(sch: TVMSchedule, loops: Sequence[Any]) -> bool:
    """Reorder loops; False, and the program stays, where this is not proven to be right."""
    given = [get_statement(sch, loop) for loop in loops]
    depths = [len(path_to(get_sref(sch, loop))) for loop in loops]
    top = loops[depths.index(min(depths))]
    nest = [get_statement(sch, top)]
    for _ in range(max(depths) - min(depths)):
        nest.append(nest[-1].body)
        if not isinstance(nest[-1], tirx.For):
            return False
    moved = [holds(given, one) for one in nest]
    fixed = all(constant(part) is not None for one in nest for part in (one.min, one.extent))
    if sum(moved) < len(given) or not fixed:
        return False
    following = iter(given)
    ordered = [next(following) if moves else one for one, moves in zip(nest, moved, strict=True)]
    mod = get_module(sch)
    inwards = {
        outer
        for outer, inner in combinations(nest, 2)
        if ordered.index(outer) > ordered.index(inner)
    }
    if any(fault_of(mod, one.loop_var, PARALLEL) is not None for one in inwards):
        return False
    body = nest[-1].body
    for one in reversed(ordered):
        body = changed_loop(one, body)
    replace(sch, get_sref(sch, top), body, {})
    return True


def vectorize(sch: TVMSchedule, loop: Any) -> None:
    """Call ScheduleVectorize; ValueError where lanes are not proven apart.

    TVM refuses an update whose initial value another block stores. Where the loop is directly
    around a block of one store, and its lanes are apart, that is no reason.
    """
    if not has_independent_iterations(sch, loop):
        _require(sch, loop, VECTORIZED, forms.vectorize)
    try:
        forms.vectorize(sch, loop)
    except ScheduleError:
        if not may_do_more(sch) or not _has_lanes(sch, loop):
            raise
        _change_kind(sch, loop, tirx.ForKind.VECTORIZED)


def may_run_in_lanes(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether the iterations of a loop are independent by their form, or proven apart."""
    return has_independent_iterations(sch, loop) or _has_lanes(sch, loop)


def _has_lanes(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether a loop is directly around a block of one store, and proven to have lanes.

    No lane accesses what another one stores.
    """
    body = get_statement(sch, loop).body
    if not isinstance(body, SBlockRealize) or body.block.init is not None:
        return False
    if not isinstance(body.block.body, tirx.BufferStore):
        return False
    return _fault(sch, loop, PARALLEL) is None


def bind(sch: TVMSchedule, loop: Any, thread_axis: str) -> None:
    """Call ScheduleBind; ValueError where what threads store is not proven apart."""
    if not may_run_in_threads(sch, loop, cooperating=thread_axis.startswith(COOPERATING)):
        apply = partial(_primitives.bind, thread_axis=thread_axis)
        _require(sch, loop, THREADS, apply, thread_axis)
    _primitives.bind(sch, loop, thread_axis)


def _change_kind(sch: TVMSchedule, loop: Any, kind: Any) -> None:
    stmt = get_statement(sch, loop)
    replace(sch, get_sref(sch, loop), changed_loop(stmt, stmt.body, kind=kind), {})


def _fault(sch: TVMSchedule, loop: Any, kind: int, axis: str = "") -> str | None:
    return fault_of(get_module(sch), get_statement(sch, loop).loop_var, kind, axis)


def _require(
    sch: TVMSchedule,
    loop: Any,
    kind: int,
    apply: Callable[[TVMSchedule, Any], None],
    axis: str = "",
) -> None:
    """Raise ValueError where iterations are not proven apart, or what ``apply`` raises."""
    fault = _fault(sch, loop, kind, axis)
    if fault is not None:
        apply(sch.copy(), loop)  # what TVM says is more precise
        raise ValueError(f"{fault}; {_REMEDY}")
