"""Forms of primitives that are right: TVM 0.27 crashes on others, or computes something else.

Each check names what is known to be right and refuses the rest, with what to do instead
(``benchmarks/primitives.py`` draws chains of primitives and compares with numpy).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm.sym import Analyzer, ProofStrength

from schedlang.tvm.parts import (
    bindings_of,
    is_reduced,
    is_spatial,
    nests_of,
    placed_blocks,
    regions_of,
    sequence_of,
)
from schedlang.tvm.program import named_functions
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    get_module,
    get_realize,
    get_sref,
    get_statement,
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
    paths = [_path_to(sref) for sref in srefs]
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
    moved = [_Tensors.of(statements[place]) for place in merged]
    for place, statement in enumerate(statements[merged[0] : merged[-1] + 1], start=merged[0]):
        other = _Tensors.of(statement)
        for own, one in zip(merged, moved, strict=True):
            shared = None if own == place else one.passed_on(other)
            if shared is not None:
                raise ValueError(
                    f"one of the loops, or a statement between them, stores {shared.name}, which "
                    "another one uses; use compute_at or reverse_compute_at"
                )


def _path_to(sref: Any) -> list[Any]:
    """Return what surrounds a statement, from the inside out."""
    path = []
    while sref.parent is not None:
        sref = sref.parent
        path.append(sref)
    return path


@dataclass(frozen=True)
class _Tensors:
    """The tensors that a statement stores in, and all that it mentions."""

    stored: list[Any]
    mentioned: list[Any]

    @classmethod
    def of(cls, statement: Any) -> _Tensors:
        """Return the tensors of a statement; the regions that its blocks declare count."""
        stored = [one.buffer for one in found_in(statement, tirx.BufferStore)]
        read = [one.source for one in found_in(statement, TensorLoad)]
        for block in found_in(statement, SBlock):
            stored += [region.source for region in block.writes]
            read += [region.source for region in block.reads]
        return cls(stored, [*stored, *read])

    def has(self, tensor: Any) -> bool:
        """Return whether a tensor is mentioned."""
        return holds(self.mentioned, tensor)

    def passed_on(self, other: _Tensors) -> Any | None:
        """Return a tensor that one stores in and the other mentions."""
        both = [(self.stored, other.mentioned), (other.stored, self.mentioned)]
        return next((one for stored, used in both for one in stored if holds(used, one)), None)


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


def fuse_reduction_epilogue(sch: TVMSchedule, reduction: Any, epilogue: Any) -> None:
    """Call ScheduleFuseReductionEpilogue; ValueError for an epilogue that does more than add.

    What is right is ``D[i, j] = C[i, j] + e`` for all elements of ``C``, which the reduction
    stores in the order of its variables. TVM takes more, and computes others wrongly: it lets the
    reduction begin with ``e``, at its own indices.
    """
    block = get_statement(sch, reduction)
    if block.init is None:
        _ffi.ScheduleFuseReductionEpilogue(sch, reduction, epilogue)  # TVM says why not
        return
    spatial = [axis for axis in block.iter_vars if is_spatial(axis)]
    after = get_statement(sch, epilogue)
    store, total = after.body, block.init
    wanted = "only an epilogue that adds, D[i, j] = C[i, j] + e, can be fused"
    if not (isinstance(store, tirx.BufferStore) and isinstance(total, tirx.BufferStore)):
        raise ValueError(f"a block stores more than one element at a time; {wanted}")
    if isinstance(store.value, tirx.Max | tirx.Min):
        raise ValueError(
            "TVM would apply this epilogue's minimum or maximum at every step of the reduction, "
            f"which changes the result; {wanted}"
        )
    if not _adds_to(store.value, total.buffer, list(store.indices)):
        raise ValueError(f"the epilogue is another function of what is reduced; {wanted}")
    if getattr(total.value, "value", None) != 0 or not _is_sum(block.body, total):
        raise ValueError(f"the reduction is not a sum that begins with 0; {wanted}")
    for name, one, axes in (("reduction", total, spatial), ("epilogue", store, after.iter_vars)):
        if not _stores_all(one, axes):
            raise ValueError(
                f"the {name} does not store all elements in the order of its variables; use "
                "reverse_compute_at to compute the epilogue below a loop of the reduction"
            )
    _ffi.ScheduleFuseReductionEpilogue(sch, reduction, epilogue)


def _adds_to(value: Any, tensor: Any, indices: list[Any]) -> bool:
    """Return whether a value is the element of a tensor at these indices, plus another value."""
    loads = [one for one in found_in(value, TensorLoad) if one.source.same_as(tensor)]
    if not isinstance(value, tirx.Add) or len(loads) != 1:
        return False
    load = loads[0]
    return holds((value.a, value.b), load) and _are_same(load.indices, indices)


def _is_sum(body: Any, total: tirx.BufferStore) -> bool:
    """Return whether a block adds to the element that it initialises."""
    is_store = isinstance(body, tirx.BufferStore) and body.buffer.same_as(total.buffer)
    return is_store and _adds_to(body.value, total.buffer, list(total.indices))


def _stores_all(store: tirx.BufferStore, axes: Sequence[Any]) -> bool:
    """Return whether a store's indices are all variables, in their order and of full extent."""
    extents = [constant(axis.dom.extent) for axis in axes]
    return (
        all(map(is_spatial, axes))
        and _are_same(store.indices, [axis.var for axis in axes])
        and extents == [constant(extent) for extent in store.buffer.ty.shape]
        and None not in extents
    )


def _are_same(indices: Sequence[Any], others: Sequence[Any]) -> bool:
    pairs = zip(indices, others, strict=False)
    return len(indices) == len(others) and all(one.same_as(other) for one, other in pairs)


def vectorize(sch: TVMSchedule, loop: Any) -> None:
    """Call ScheduleVectorize; ValueError for a loop around several blocks.

    TVM keeps one lane of what the blocks of a vectorized loop pass on.
    """
    blocks = placed_blocks(get_statement(sch, loop).body) or []
    if len(blocks) > 1:
        names = ", ".join(str(one.realize.block.name_hint) for one in blocks)
        raise ValueError(
            f"the loop surrounds several blocks ({names}), and TVM would keep one lane of what "
            "they pass on; vectorize a loop of each block"
        )
    _ffi.ScheduleVectorize(sch, loop)


def require_no_lanes(sch: TVMSchedule, loop: Any) -> None:
    """Raise ValueError if a loop is vectorized, or a loop around it: it takes no other block."""
    sref = get_sref(sch, loop)
    while sref is not None:
        statement = sref.stmt
        if isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.VECTORIZED:
            raise ValueError(
                f"loop {statement.loop_var.name} is vectorized, and TVM would keep one lane of "
                "what its blocks pass on; choose a loop around it, or vectorize afterwards"
            )
        sref = sref.parent


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


def require_all_read(sch: TVMSchedule, block: Any) -> None:
    """Raise ValueError if a block reads of a tensor under a condition that leaves a part out.

    TVM takes what the tensor has for all that the block computes.
    """
    own = get_statement(sch, block)
    for region in own.reads:
        if not _is_inside(own, region):
            raise ValueError(
                f"block {own.name_hint} reads {region.source.name} under a condition, and TVM "
                "would compute only where the condition holds; use compute_at"
            )


def _is_inside(block: Any, region: Any) -> bool:
    """Return whether a region is within its tensor's bounds, whatever a block's variables are."""
    extents = {axis.var: constant(axis.dom.extent) for axis in block.iter_vars}
    analyzer = None
    for part, extent in zip(region.region, region.source.ty.shape, strict=True):
        whole, known = constant(extent), extents.get(part.min)
        single = constant(part.extent) == 1
        if single and whole is not None and known is not None and known <= whole:
            continue  # the usual case, without a proof
        if analyzer is None:
            analyzer = Analyzer()
            for axis in block.iter_vars:
                analyzer.bind(axis.var, axis.dom)
        after = part.min + part.extent
        within = (part.min >= 0, after <= extent)
        if not all(analyzer.can_prove(one, ProofStrength.SYMBOLIC_BOUND) for one in within):
            return False
    return True


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
                if not around and not holds(inside, other) and _Tensors.of(other).has(tensor):
                    raise ValueError(
                        f"block {other.name_hint} in the same loops uses {tensor.name} too, and "
                        "TVM would copy it outside of these loops; do this before compute_at"
                    )


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
    for sref in (target, *_path_to(target)):
        if isinstance(sref.stmt, SBlock):
            return
        variable = sref.stmt.loop_var
        for realize in blocks:
            for axis, value in bindings_of(realize):
                if is_reduced(axis) and mentions(value, [variable]):
                    raise ValueError(
                        f"loop {variable.name} is a step of {realize.block.name_hint}, which would "
                        f"not be whole when {own.name_hint} takes it in; choose a loop around it"
                    )


def require_own_loops(sch: TVMSchedule, target: Any) -> None:
    """Raise ValueError where a block's variables do not follow from loops of its scope, from 0 on.

    TVM takes a loop around the scope for one iteration, and leaves out where a loop begins.
    """
    statement = get_statement(sch, target)
    loops = found_in(statement, tirx.For)
    known = [loop.loop_var for loop in loops]
    for sref in _path_to(get_sref(sch, target)):
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
