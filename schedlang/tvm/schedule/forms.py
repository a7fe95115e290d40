"""Forms of primitives that are right: TVM 0.27 crashes on others, or computes something else.

Each check names what is known to be right and refuses the rest, with what to do instead
(``benchmarks/primitives.py`` draws chains of primitives and compares with numpy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm.sym import Analyzer

from schedlang.tvm.program import named_functions
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    get_module,
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
    sequence_of,
)
from schedlang.tvm.values import constant, found_in, holds, mentions


def merge(sch: TVMSchedule, loops: Sequence[Any]) -> Any:
    """Call ScheduleMerge; ValueError if two of the handles refer to the same loop.

    ValueError also where one of the nests uses what another one, or a statement between them,
    stores: TVM does not ask whether an iteration finds it.
    """
    srefs = [get_sref(sch, loop) for loop in loops]
    for position, sref in enumerate(srefs):
        if holds(srefs[:position], sref):
            raise ValueError(f"loops[{position}] is the same loop as an earlier one")
    _require_independent(srefs)
    return _ffi.ScheduleMerge(sch, loops)


def _require_independent(srefs: Sequence[Any]) -> None:
    """Raise ValueError if the nests of loops pass on tensors to each other, in either order."""
    paths = [path_to(sref) for sref in srefs]
    common = next((one for one in paths[0] if all(holds(path, one) for path in paths)), None)
    if common is None:
        return  # TVM says that they are in different functions
    statements = sequence_of(common.stmt.body)
    merged = [
        place
        for place, statement in enumerate(statements)
        if any(holds(found_in(statement, tirx.For), sref.stmt) for sref in srefs)
    ]
    if not merged:
        return
    moved = [Accesses(statements[place]) for place in merged]
    for place, statement in enumerate(statements[merged[0] : merged[-1] + 1], start=merged[0]):
        other = Accesses(statement)
        for own, one in zip(merged, moved, strict=True):
            shared = None if own == place else one.passed_on(other)
            if shared is not None:
                raise ValueError(
                    f"one of the loops, or a statement between them, stores {shared.name}, which "
                    "another one uses; use compute_at or reverse_compute_at"
                )


def loop_partition(
    sch: TVMSchedule, loop: Any, factors: Sequence[Any], preserve_unit_iters: bool
) -> Any:
    """Call ScheduleLoopPartition; ValueError unless the loop surrounds a single block.

    ValueError also where the block sets its initial value in one of the loop's iterations: each
    part of the loop would set it again.
    """
    if len(factors) < 1 or (len(factors) == 1 and factors[0] is None):
        raise ValueError("factors must give at least the length of the first part")
    statement = get_statement(sch, loop)
    body = statement.body
    while isinstance(body, tirx.For):
        body = body.body
    if not isinstance(body, SBlockRealize):
        raise ValueError("the loop surrounds several statements; it must surround a single block")
    if body.block.init is not None and any(
        is_reduced(axis) and mentions(value, [statement.loop_var])
        for axis, value in bindings_of(body)
    ):
        raise ValueError(
            f"block {body.block.name_hint} reduces over this loop, and TVM would set its initial "
            "value in each part: use decompose_reduction first"
        )
    return _ffi.ScheduleLoopPartition(sch, loop, factors, preserve_unit_iters)


def reorder_block_iter_var(sch: TVMSchedule, block: Any, new_order: Sequence[int]) -> None:
    """Call ScheduleReorderBlockIterVar; ValueError for a block without variables (the root)."""
    if not get_statement(sch, block).iter_vars:
        raise ValueError("the block has no variables to reorder")
    _ffi.ScheduleReorderBlockIterVar(sch, block, new_order)


def vectorize(sch: TVMSchedule, loop: Any) -> None:
    """Call ScheduleVectorize; ValueError for several blocks, or where the data say the length.

    TVM keeps one lane of what the blocks of a vectorized loop pass on.
    """
    stmt = get_statement(sch, loop)
    if found_in(stmt.extent, (tirx.Var, TensorLoad)):
        raise ValueError(
            f"the length of the loop, {stmt.extent}, is not a constant; split off a part of "
            "constant length, and vectorize that"
        )
    blocks = found_in(stmt, SBlock)
    of_inits = [one for block in blocks if block.init for one in found_in(block.init, SBlock)]
    innermost = [
        one for one in blocks if len(found_in(one, SBlock)) == 1 and not holds(of_inits, one)
    ]
    if len(innermost) > 1:
        names = ", ".join(str(one.name_hint) for one in innermost)
        raise ValueError(
            f"the loop surrounds several blocks ({names}), and TVM would keep one lane of what "
            "they pass on; vectorize a loop of each block"
        )
    _ffi.ScheduleVectorize(sch, loop)


def may_decompose_padding(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether a loop surrounds one block alone, so that all it reads may be filled before.

    Of a loop around the consumer as well, TVM would fill what one iteration reads, once for all.
    """
    return len(placed_blocks(get_statement(sch, loop).body) or []) == 1


def decompose_padding(sch: TVMSchedule, block: Any, loop: Any) -> Any:
    """Call ScheduleDecomposePadding; ValueError for a loop around other blocks."""
    if not may_decompose_padding(sch, loop):
        raise ValueError(
            "the loop surrounds other blocks, and TVM would fill only once what each iteration "
            "needs anew; choose a loop around the padding alone, or decompose before compute_at"
        )
    return _ffi.ScheduleDecomposePadding(sch, block, loop)


def require_nest_alone(sch: TVMSchedule, block: Any, operation: str) -> None:
    """Raise ValueError if other blocks are in the nest of a block.

    TVM puts copies around the outermost loop of the block, where others do not find them.
    """
    own = get_statement(sch, block)
    for func in named_functions(get_module(sch)).values():
        for nest in nests_of(func):
            if holds(found_in(nest, SBlock), own) and len(placed_blocks(nest) or [0, 0]) > 1:
                raise ValueError(
                    f"{operation} puts copies around all loops of {own.name_hint}, which surround "
                    f"other blocks; use {operation} before compute_at"
                )


def rfactor(sch: TVMSchedule, loop: Any, factor_axis: int) -> Any:
    """Call ScheduleRFactor; ValueError where a condition is about loops that are no reduction's.

    TVM leaves the condition out where the parts are summed up.
    """
    for realize in found_in(get_statement(sch, loop), SBlockRealize):
        spatial = [value for axis, value in bindings_of(realize) if is_spatial(axis)]
        outer = [one for value in spatial for one in found_in(value, tirx.Var)]
        if mentions(realize.predicate, outer):
            raise ValueError(
                f"tiles of block {realize.block.name_hint} do not fit, and TVM would sum up parts "
                "outside of the tensor; use rfactor before split"
            )
    return _ffi.ScheduleRFactor(sch, loop, factor_axis)


def require_apart(sch: TVMSchedule, target: Any) -> None:
    """Raise ValueError where loops overlap in a variable of a block, or it does not begin with 0.

    Of ``v = i + k`` with ``k < 3`` TVM makes ``3 * i + k``, and ``i`` of ``v = i + 1``.
    """
    statement = get_statement(sch, target)
    around = [one.stmt for one in path_to(get_sref(sch, target))]
    analyzer = Analyzer()
    for loop in (*around, *found_in(statement, tirx.For)):
        if isinstance(loop, tirx.For):
            analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        else:
            for axis in loop.iter_vars:
                analyzer.bind(axis.var, axis.dom)
    for realize in reversed(found_in(statement, SBlockRealize)):  # outer ones first
        for axis, value in bindings_of(realize):
            if _is_shifted(value):
                raise ValueError(
                    f"variable {axis.var.name} of block {realize.block.name_hint} is {value}, and "
                    "TVM would leave out the constant; do this before compute_at"
                )
            if not _are_apart(value, analyzer):
                raise ValueError(
                    f"variable {axis.var.name} of block {realize.block.name_hint} has the same "
                    "value in several iterations, and TVM would give each another one; do this "
                    "before compute_at"
                )
        for axis in realize.block.iter_vars:
            analyzer.bind(axis.var, axis.dom)


def _is_shifted(value: Any) -> bool:
    """Return whether a constant is part of a value, or something is subtracted."""
    if constant(value) is not None:
        return constant(value) != 0
    sums = found_in(value, (tirx.Add, tirx.Sub))
    return any(
        isinstance(one, tirx.Sub) or constant(one.a) or constant(one.b) is not None for one in sums
    )


def _are_apart(value: Any, analyzer: Analyzer) -> bool:
    """Return whether the terms of a sum are digits of a number: each counts on beyond the last."""
    terms = [term for term in _terms(value) if constant(term) is None]
    if len(terms) < 2:
        return True
    digits = []
    for term in terms:
        scale = constant(term.b) if isinstance(term, tirx.Mul) else 1
        bound = analyzer.const_int_bound(term.a if isinstance(term, tirx.Mul) else term)
        if not scale or scale < 0 or bound.min_value != 0:
            return False
        digits.append((scale, bound.max_value + 1))
    reach = 1
    for scale, extent in sorted(digits):
        if extent == 1:
            continue
        if scale < reach:
            return False
        reach = scale * extent
    return True


def _terms(value: Any) -> list[Any]:
    if isinstance(value, tirx.Add):
        return [*_terms(value.a), *_terms(value.b)]
    return [value]


def require_own_loops(sch: TVMSchedule, target: Any) -> None:
    """Raise ValueError where a block's variables do not follow from loops of its scope, from 0 on.

    TVM takes a loop around the scope for one iteration, and leaves out where a loop begins.
    """
    statement = get_statement(sch, target)
    loops = found_in(statement, tirx.For)
    known = [loop.loop_var for loop in loops]
    for sref in path_to(get_sref(sch, target)):
        if isinstance(sref.stmt, SBlock):
            known += [axis.var for axis in sref.stmt.iter_vars]
            break
        known.append(sref.stmt.loop_var)
    for realize in found_in(statement, SBlockRealize):
        for _, value in bindings_of(realize):
            if not all(holds(known, one) for one in found_in(value, tirx.Var)):
                raise ValueError(
                    f"a variable of block {realize.block.name_hint} is that of a loop around "
                    "another block, and TVM would take it for 0; do this before loop_partition"
                )
        known += [axis.var for axis in realize.block.iter_vars]
    for loop in loops:
        if constant(loop.min) != 0:
            raise ValueError(
                f"loop {loop.loop_var.name} does not begin with 0, and TVM would leave out where; "
                "do this before loop_partition"
            )


def rolling_buffer(sch: TVMSchedule, block: Any, index: int) -> None:
    """Call ScheduleRollingBuffer; ValueError for a block that does more than store one element.

    TVM lets the block store only what is new, which it tells from the block's loops.
    """
    own = get_statement(sch, block)
    axes = [axis.var for axis in own.iter_vars]
    store = own.body
    if not isinstance(store, tirx.BufferStore) or not all(
        holds(axes, one) for one in store.indices
    ):
        raise ValueError(
            f"block {own.name_hint} stores more than an element at its variables, of which TVM "
            "would leave out what it does not know; use rolling_buffer before read_at and blockize"
        )
    _ffi.ScheduleRollingBuffer(sch, block, index)
