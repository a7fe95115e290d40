"""TVM primitives that crash the process or compute wrongly (TVM 0.27), with a guard around them.

Some crash on some arguments; checks stand before them. Others simplify or invert indices and the
bindings of block variables, and compute some divisions wrongly, see ``iterator_maps``. While one
runs, such divisions are calls that TVM knows nothing of. It then leaves them as they are, or
refuses where it cannot do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm_ffi import structural_map

from schedlang.tvm.iterator_maps import DIVISIONS, Iterators, shown
from schedlang.tvm.parts import bindings_of, is_reduced, is_spatial, nests_of, placed_blocks
from schedlang.tvm.program import named_functions
from schedlang.tvm.schedule.ffi import TVMSchedule, get_module, get_sref, get_statement, replace
from schedlang.tvm.values import constant, found_in, holds, mentions


def merge(sch: TVMSchedule, loops: Sequence[Any]) -> Any:
    """Call ScheduleMerge; ValueError if two of the handles refer to the same loop."""
    srefs = [get_sref(sch, loop) for loop in loops]
    for position, sref in enumerate(srefs):
        if holds(srefs[:position], sref):
            raise ValueError(f"loops[{position}] is the same loop as an earlier one")
    return _ffi.ScheduleMerge(sch, loops)


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


Apply = Callable[..., Any]
Test = Callable[[Iterators, Any], bool]


_hides = ContextVar("hides", default=True)


@contextmanager
def as_in_tvm() -> Iterator[None]:
    """Hide nothing inside ``with``: primitives do what they do in TVM without schedlang."""
    token = _hides.set(False)
    try:
        yield
    finally:
        _hides.reset(token)


def within_function(apply: Apply) -> Apply:
    """Hide the divisions of the whole function from a primitive of a block or a loop."""
    return _hiding(apply, _root)


def within_function_signed(apply: Apply) -> Apply:
    """Hide those, and what subtracts iterators: this primitive divides indices itself.

    Of ``x[8 - i]`` with the layout ``i % 3, i // 3`` TVM makes ``x[i % -3 * -1, ...]``.
    """

    def is_odd(iterators: Iterators, expr: Any) -> bool:
        if isinstance(expr, DIVISIONS):
            return iterators.is_odd(expr)
        return str(expr.ty.dtype).startswith("int") and iterators.subtracts(expr)

    return _hiding(apply, _root, is_odd, (*DIVISIONS, tirx.Sub, tirx.Mul))


def within(apply: Apply) -> Apply:
    """Hide the divisions of the block or loop that a primitive is called with; of the first one."""
    return _hiding(apply, lambda sref: sref)


def within_all(apply: Apply) -> Apply:
    """Hide those, and all others that are not of a variable alone.

    Where a consumer reads ``x[v * 3 // 16]``, TVM takes it that its variable stays 0.
    """
    return _hiding(apply, lambda sref: sref, lambda iterators, division: True)


def _hiding(
    apply: Apply,
    region: Callable[[Any], Any],
    is_odd: Test = Iterators.is_odd,
    kinds: tuple[Any, ...] = DIVISIONS,
) -> Apply:
    def run(sch: TVMSchedule, handle: Any, *args: Any) -> Any:
        first = handle if not isinstance(handle, list | tuple) else next(iter(handle), None)
        if first is None or not _hides.get():  # TVM refuses a list of no blocks
            return apply(sch, handle, *args)
        sref = region(get_sref(sch, first))
        if not _hide(sch, sref, is_odd, kinds):
            return apply(sch, handle, *args)
        root = _root(sref)
        try:
            return apply(sch, handle, *args)
        finally:
            _replace(sch, root, shown(root.stmt))

    return run


def _hide(sch: TVMSchedule, sref: Any, is_odd: Test, kinds: tuple[Any, ...]) -> bool:
    """Hide the odd expressions below a block or loop; return whether there are any."""
    found = found_in(sref.stmt, kinds)
    # Most are divisions of a loop that was fused.
    if all(map(_is_of_variable, found)):
        return False
    iterators = Iterators.of(_root(sref).stmt)

    def hide(expr: Any) -> Any:
        if _is_of_variable(expr) or not is_odd(iterators, expr):
            return expr
        return iterators.hidden(expr)

    if all(hide(expr) is expr for expr in found):
        return False

    _replace(sch, sref, structural_map(sref.stmt, (kinds, hide), order="post"))
    return True


def _is_of_variable(expr: Any) -> bool:
    return isinstance(expr, DIVISIONS) and isinstance(expr.a, tirx.Var)


def _root(sref: Any) -> Any:
    while sref.parent is not None:
        sref = sref.parent
    return sref


def _replace(sch: TVMSchedule, sref: Any, new: Any) -> None:
    """Put a statement with the same blocks and loops in a block's or loop's place."""
    pairs = zip(found_in(sref.stmt, SBlock), found_in(new, SBlock), strict=True)
    reused = {old: made for old, made in pairs if not old.same_as(made)}
    replace(sch, sref, new, reused)
