"""What must be true before a primitive runs: what it may copy, and where blocks are computed.

TVM 0.27 copies regions whole, before or behind all loops of a nest, and computes blocks at places
where what they take in is not whole. Each function raises ValueError where that would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm.sym import Analyzer, ProofStrength

from schedlang.tvm.program import named_functions
from schedlang.tvm.schedule.ffi import (
    HeldProgram,
    TVMSchedule,
    copy_schedule,
    get_module,
    get_realize,
    get_sref,
    get_statement,
    path_to,
)
from schedlang.tvm.statements import (
    Accesses,
    bindings_of,
    is_reduced,
    is_spatial,
    nests_of,
    placed_blocks,
    regions_of,
)
from schedlang.tvm.values import constant, found_in, holds, mentions

# -- What primitives may copy ---------------------------------------------------------------------


def require_alone(sch: TVMSchedule, tensor: Any, operation: str) -> None:
    """Raise ValueError if other blocks are in the nest of one that stores in a tensor.

    TVM stores padding around the outermost loop of the block, where others do not find it.
    """
    for func in named_functions(get_module(sch)).values():
        for nest in nests_of(func):
            stores = any(one.buffer.same_as(tensor) for one in found_in(nest, tirx.BufferStore))
            if stores and len(placed_blocks(nest) or [None, None]) > 1:
                raise ValueError(
                    f"{operation} stores padding, and the loops that store in {tensor.name} "
                    "surround other blocks; change the layout before compute_at"
                )


def require_only_writer(sch: TVMSchedule, block: Any, tensor: Any) -> None:
    """Raise ValueError if another block stores in a tensor as well: it would not see the copy."""
    own = get_statement(sch, block)
    inside = found_in(own, SBlock)
    for func in named_functions(get_module(sch)).values():
        for other in found_in(func.body, SBlock):
            innermost = not any(not one.same_as(other) for one in found_in(other, SBlock))
            if not innermost or holds(inside, other):
                continue
            if any(one.buffer.same_as(tensor) for one in found_in(other, tirx.BufferStore)):
                raise ValueError(
                    f"block {other.name_hint} stores in {tensor.name} too, and would not be given "
                    "the copy; do this before the blocks are taken apart"
                )


def require_new_values(sch: TVMSchedule, block: Any, index: int) -> None:
    """Raise ValueError if what a block writes is computed from what was there before.

    TVM lets the block update a copy that nobody has filled.
    """
    own = get_statement(sch, block)
    if own.init is None and 0 <= index < len(own.writes):
        tensor = own.writes[index].source
        if any(region.source.same_as(tensor) for region in own.reads):
            raise ValueError(
                f"block {own.name_hint} updates {tensor.name} in place, and TVM would not fill the "
                "copy first; do this before decompose_reduction, or leave it"
            )


def require_only_read(sch: TVMSchedule, block: Any, index: int) -> None:
    """Raise ValueError if a block writes what is to be copied before it reads it."""
    own = get_statement(sch, block)
    if 0 <= index < len(own.reads):
        tensor = own.reads[index].source
        if any(region.source.same_as(tensor) for region in own.writes):
            raise ValueError(
                f"block {own.name_hint} writes {tensor.name} too, and TVM would leave what it "
                "writes in the copy; do this before decompose_reduction, or leave it"
            )


def require_inside(sch: TVMSchedule, block: Any, role: str, index: int) -> None:
    """Raise ValueError unless a block accesses a tensor within its bounds, whatever holds.

    TVM copies the whole region, of which conditions may leave out what is outside of the tensor.
    """
    realize = get_realize(sch, block)
    own = realize.block
    regions = regions_of(own, role)
    if not 0 <= index < len(regions):
        return  # TVM says so
    region = regions[index]
    if not _is_inside(own, region) or not constant(realize.predicate):
        raise ValueError(
            f"block {own.name_hint} leaves out a part of its region of {region.source.name} by a "
            "condition, and TVM would copy that as well; use cache_read or cache_write"
        )


def require_copy_inside(
    sch: TVMSchedule, block: Any, role: str, index: int, copy: Callable[[TVMSchedule], Any]
) -> None:
    """Raise ValueError if a copy of what a block accesses would reach beyond its tensor.

    TVM does not find the ends of each region of which a condition leaves out a part: of
    ``C[8 - v]`` with ``v < 9`` in tiles of 5 it copies ``C[-1]``. It is tried on another schedule.
    """
    realize = get_realize(sch, block)
    own = realize.block
    regions = regions_of(own, role)
    if not 0 <= index < len(regions):
        return  # TVM says so
    around = [one.stmt for one in path_to(get_sref(sch, block)) if isinstance(one.stmt, SBlock)]
    variables = [axis.var for one in (own, *around) for axis in one.iter_vars]
    parts = regions[index].region
    if all(constant(one.extent) == 1 and holds(variables, one.min) for one in parts):
        return  # elements at variables of blocks: TVM finds their ends
    if constant(realize.predicate) and _is_inside(own, regions[index], around):
        return
    held, trial = HeldProgram(get_module(sch)), copy_schedule(sch)
    made = trial and get_statement(trial, copy(trial))
    del trial, held  # in this order: as long as they share statements, none changes in place
    if not made or not all(_is_inside(made, one, around) for one in (*made.reads, *made.writes)):
        name = regions[index].source.name
        raise ValueError(
            f"block {own.name_hint} leaves out a part of its region of {name} by a condition, and "
            f"TVM would copy more than {name} has; make the copy before split"
        )


def require_all_read(sch: TVMSchedule, block: Any, producers: Sequence[Any]) -> None:
    """Raise ValueError if a block reads of its producers under a condition that leaves a part out.

    TVM takes what the tensor has for all that the block computes.
    """
    own = get_statement(sch, block)
    made = [region.source for one in producers for region in get_statement(sch, one).writes]
    for region in own.reads:
        if holds(made, region.source) and not _is_inside(own, region):
            raise ValueError(
                f"block {own.name_hint} reads {region.source.name} under a condition, and TVM "
                "would compute only where the condition holds; use compute_at"
            )


def _is_inside(block: Any, region: Any, around: Sequence[Any] = ()) -> bool:
    """Return whether a region is within its tensor's bounds, whatever the blocks' variables are."""
    extents = {axis.var: constant(axis.dom.extent) for axis in block.iter_vars}
    analyzer = None
    for part, extent in zip(region.region, region.source.ty.shape, strict=True):
        whole, known = constant(extent), extents.get(part.min)
        single = constant(part.extent) == 1
        if single and whole is not None and known is not None and known <= whole:
            continue  # the usual case, without a proof
        if analyzer is None:
            analyzer = Analyzer()
            for axis in (axis for one in (block, *around) for axis in one.iter_vars):
                analyzer.bind(axis.var, axis.dom)
        after = part.min + part.extent
        within = (part.min >= 0, after <= extent)
        if not all(analyzer.can_prove(one, ProofStrength.SYMBOLIC_BOUND) for one in within):
            return False
    return True


def require_unshared(sch: TVMSchedule, block: Any, role: str, index: int) -> None:
    """Raise ValueError if other blocks in a block's nest pass on a tensor to it, or take it.

    TVM copies before or behind all loops of the nest.
    """
    own = get_statement(sch, block)
    regions = regions_of(own, role)
    if not 0 <= index < len(regions):
        return  # TVM says so
    tensor = regions[index].source
    for func in named_functions(get_module(sch)).values():
        for nest in nests_of(func):
            blocks = found_in(nest, SBlock)
            if not holds(blocks, own):
                continue
            inside = found_in(own, SBlock)
            for other in blocks:
                around = holds(found_in(other, SBlock), own)
                if (
                    not around
                    and not holds(inside, other)
                    and holds(Accesses(other).mentioned, tensor)
                ):
                    raise ValueError(
                        f"block {other.name_hint} in the same loops uses {tensor.name} too, and "
                        "TVM would copy it outside of these loops; do this before compute_at"
                    )


# -- Places at which blocks are computed: inputs are whole, in all lanes --------------------------


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
