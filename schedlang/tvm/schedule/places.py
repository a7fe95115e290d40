"""Places at which blocks are computed: what they take in is whole there, in all lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.parts import bindings_of, is_reduced, is_spatial
from schedlang.tvm.schedule.ffi import TVMSchedule, get_sref, get_statement, path_to
from schedlang.tvm.values import found_in, holds, mentions


def require_no_lanes(sch: TVMSchedule, target: Any) -> None:
    """Raise ValueError if a loop is vectorized, or a loop around it: it takes no other block."""
    _require_no_lanes_at(get_sref(sch, target))


def _require_no_lanes_at(sref: Any) -> None:
    for one in (sref, *path_to(sref)):
        statement = one.stmt
        if isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.VECTORIZED:
            raise ValueError(
                f"loop {statement.loop_var.name} is vectorized, and TVM would keep one lane of "
                "what its blocks pass on; choose a loop around it, or vectorize afterwards"
            )


def require_scope_without_lanes(sch: TVMSchedule, block: Any) -> None:
    """Raise ValueError if the block around a block is in a vectorized loop: it takes no other."""
    around = [one for one in path_to(get_sref(sch, block)) if isinstance(one.stmt, SBlock)]
    if around:
        _require_no_lanes_at(around[0])


def require_whole_results(sch: TVMSchedule, block: Any, loop: Any) -> None:
    """Raise ValueError if a block that sums up, or updates, would be run at each step of a sum.

    It would take in results of which only the last one is whole.
    """
    own = get_statement(sch, block)
    written = [region.source for region in own.writes]
    if own.init is None and not any(holds(written, region.source) for region in own.reads):
        return
    target = get_sref(sch, loop)
    blocks = found_in(target.stmt, SBlockRealize)
    for variable in _variables_from(target):
        for realize in blocks:
            if _follows(realize, variable, is_reduced):
                raise ValueError(
                    f"loop {variable.name} is a step of {realize.block.name_hint}, which would "
                    f"not be whole when {own.name_hint} takes it in; choose a loop around it"
                )


def require_whole_inputs(sch: TVMSchedule, block: Any, loop: Any, producers: Sequence[Any]) -> None:
    """Raise ValueError if a block would read a sum before its last step, and not again after it.

    Each step of the sum may run the block as long as it stores the same elements each time.
    """
    target = get_sref(sch, loop)
    inside = found_in(target.stmt, SBlockRealize)
    direct = _realizes(sch, producers, inside)
    sums = _realizes(sch, _all_producers(sch, producers), inside)
    for variable in _variables_from(target):
        if not any(_follows(realize, variable, is_spatial) for realize in direct):
            continue
        for realize in sums:
            if _follows(realize, variable, is_reduced):
                raise ValueError(
                    f"loop {variable.name} is a step of {realize.block.name_hint}, which would not "
                    f"be whole when {get_statement(sch, block).name_hint} reads it; choose a loop "
                    "around it"
                )


def _variables_from(loop: Any) -> Iterator[Any]:
    """Yield the variables of a loop and of those around it, up to the block around them."""
    for sref in (loop, *path_to(loop)):
        if isinstance(sref.stmt, SBlock):
            return
        yield sref.stmt.loop_var


def _all_producers(sch: TVMSchedule, blocks: Sequence[Any]) -> list[Any]:
    """Return blocks and all that what they read is made by, in the same scope."""
    found: list[Any] = []
    waiting = list(blocks)
    while waiting:
        one = waiting.pop()
        if not holds([get_sref(sch, other) for other in found], get_sref(sch, one)):
            found.append(one)
            waiting.extend(_ffi.ScheduleGetProducers(sch, one))
    return found


def _realizes(sch: TVMSchedule, blocks: Sequence[Any], inside: Sequence[Any]) -> list[Any]:
    statements = [get_statement(sch, block) for block in blocks]
    return [realize for realize in inside if holds(statements, realize.block)]


def _follows(realize: Any, variable: Any, is_kind: Callable[[Any], bool]) -> bool:
    """Return whether a variable of the block, of a kind, changes with that of a loop."""
    return any(
        is_kind(axis) and mentions(value, [variable]) for axis, value in bindings_of(realize)
    )
