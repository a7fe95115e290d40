"""Blocks that update a tensor, ``H[f] = H[f] + x``: other orders, and private copies.

The operator is associative and commutative. Parts of the iterations may update copies that start
with its neutral element; to combine them gives the same. ``chains`` makes several chains of the
updates of one element; the copies here let threads update the same tensor, as in a histogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm_ffi import structural_map

from schedlang.tvm.program import MAIN, changed_block
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    get_module,
    get_sref,
    get_statement,
    replace,
    scope_of,
)
from schedlang.tvm.schedule.forms import require_nest_alone
from schedlang.tvm.statements import is_reduced, is_spatial, operand_beside, sequence, sequence_of
from schedlang.tvm.values import constant, found_in, holds, mentions

# -- What may be updated in another order ---------------------------------------------------------

_NEUTRAL: dict[Any, Any] = {tirx.Add: lambda dtype: tirx.const(0, dtype)}
# For floats that would be infinities; tirx.min_value is the least finite number.
_NEUTRAL_OF_INTEGERS = {**_NEUTRAL, tirx.Max: tirx.min_value, tirx.Min: tirx.max_value}


def update_of(stmt: Any) -> Any:
    """Return the store of a block that only updates a tensor: ``H[f] = H[f] + x``; else None.

    Neither the place nor what is added depends on the tensor.
    """
    store = stmt.body
    if stmt.init is not None or len(stmt.alloc_buffers) or len(stmt.match_buffers):
        return None
    if not isinstance(store, tirx.BufferStore) or neutral_of(store) is None:
        return None
    other = operand_beside(store, type(store.value))
    if other is None or any(mentions(one, [store.buffer]) for one in (other, *store.indices)):
        return None
    return store


def updated_elements(stmt: Any) -> int | None:
    """Return the number of elements of the tensor that a block only updates; None for others."""
    store = update_of(stmt)
    if store is None:
        return None
    extents = [constant(one) for one in store.buffer.ty.shape]
    known = [one for one in extents if one is not None]
    return prod(known) if len(known) == len(extents) else None


def neutral_of(store: Any) -> Any:
    """Return what the operator of an update leaves as it is; None for an operator without."""
    dtype = str(store.buffer.ty.dtype)
    known = _NEUTRAL_OF_INTEGERS if "int" in dtype else _NEUTRAL
    make = known.get(type(store.value))
    return None if make is None or dtype == "bool" else make(dtype)


def require_update(stmt: Any) -> Any:
    """Return the store of a block that only updates a tensor of constant size, or ValueError."""
    if updated_elements(stmt) is None:
        raise ValueError(f"block {stmt.name_hint} does more than update a tensor of constant size")
    return update_of(stmt)


def require_alone(sch: TVMSchedule, root: Any, nest: Any, stmt: Any, store: Any) -> Any:
    """Return how a block of a loop nest is realized; ValueError unless its update alone is there.

    ``root`` is TVM's reference to the program's root block.
    """
    name = stmt.name_hint
    realizes = found_in(nest, SBlockRealize)
    if len(realizes) != 1 or not realizes[0].block.same_as(stmt):
        raise ValueError(f"block {name} is not alone in loop {nest.loop_var.name}")
    named = [*get_module(sch)[MAIN].params, *root.stmt.alloc_buffers]
    read = {load.source for load in found_in(nest, TensorLoad)}
    if not all(holds(named, source) for source in read):
        raise ValueError(f"block {name} reads memory by another name")
    if mentions(realizes[0].predicate, [store.buffer]):
        raise ValueError(f"whether block {name} runs depends on what it updates")
    return realizes[0]


def new_names(root: Any, stmt: Any, endings: Sequence[str], what: str) -> list[str]:
    """Return the names of blocks that are made for a block; ValueError where they are there."""
    names = [f"{stmt.name_hint}_{ending}" for ending in endings]
    if {*names} & {str(one.name_hint) for one in found_in(root.stmt, SBlock)}:
        raise ValueError(f"block {stmt.name_hint} updates {what} already")
    return names


# -- Private copies of a tensor that is updated at places that the data say -----------------------
#
# Two iterations may update the same element, so they cannot run at the same time. Parts of the
# iterations can, if each updates a copy of its own; the copies are then combined.


def privatize(sch: TVMSchedule, block: Any, loop: Any) -> None:
    """Let each iteration of the outermost loop around a block update its own copy of a tensor.

    ValueError where the block does more than update a tensor, or is not alone in the loop.
    """
    nest = get_statement(sch, loop)
    old = get_statement(sch, block)
    store = require_update(old)
    root = scope_of(get_sref(sch, loop))
    statements = sequence_of(root.stmt.body)
    parts = constant(nest.extent)
    if root.parent is not None or not holds(statements, nest):
        raise ValueError(f"loop {nest.loop_var.name} is not an outermost loop of the program")
    if parts is None or constant(nest.min) != 0:
        raise ValueError(f"the range of loop {nest.loop_var.name} is not constant from 0 on")
    realize = require_alone(sch, root, nest, old, store)
    start, total = new_names(root, old, ("start", "sum"), "private copies")
    whole = store.buffer
    shape = [int(extent) for extent in whole.ty.shape]
    copies = tirx.decl_buffer([parts, *shape], str(whole.ty.dtype), f"{whole.name}_private")
    update = _in_copy(realize, store, copies, nest)
    made = [
        _nest(start, copies, [copies], lambda at: _start(copies, store, at)),
        structural_map(nest, (SBlockRealize, lambda one: update)),
        _nest(total, copies, [whole], lambda at: _add(copies, store, at)),
    ]
    body = sequence(
        [one for stmt in statements for one in (made if stmt.same_as(nest) else [stmt])]
    )
    allocated = [*root.stmt.alloc_buffers, copies]
    new = changed_block(root.stmt, body=body, allocated=allocated)
    replace(sch, root, new, {root.stmt: new, old: update.block})


def _in_copy(realize: Any, store: Any, copies: Any, nest: Any) -> Any:
    """Return a block that updates the copy of its iteration of the outermost loop."""
    old = realize.block
    part = tirx.Var("vp", nest.loop_var.ty)
    axis = tirx.IterVar(Range(0, nest.extent), part, tirx.IterVar.DataPar)

    def moved(one: Any) -> Any:
        if not one.source.same_as(store.buffer):
            return one
        return tirx.BufferLoad(copies, [part, *one.indices])

    value = structural_map(store.value, (TensorLoad, moved))
    body = tirx.BufferStore(copies, value, [part, *store.indices])
    own = copies[(slice(part, part + 1), *(slice(0, n) for n in store.buffer.ty.shape))]

    def regions(found: Sequence[Any]) -> list[Any]:
        return [own if one.source.same_as(store.buffer) else one for one in found]

    block = SBlock(
        [axis, *old.iter_vars],
        regions(old.reads),
        regions(old.writes),
        old.name_hint,
        body,
        None,
        [],
        [],
        old.annotations,
    )
    return SBlockRealize([nest.loop_var, *realize.iter_values], realize.predicate, block)


def _start(copies: Any, store: Any, at: Sequence[Any]) -> Any:
    return tirx.BufferStore(copies, neutral_of(store), at)


def _add(copies: Any, store: Any, at: Sequence[Any]) -> Any:
    total = tirx.BufferLoad(store.buffer, at[1:])
    value = type(store.value)(total, tirx.BufferLoad(copies, at))
    return tirx.BufferStore(store.buffer, value, at[1:])


def _nest(name: str, copies: Any, written: Sequence[Any], body: Any) -> Any:
    """Return loops over all elements of all copies, with a block in them."""
    loops = [tirx.Var(f"p{k}", "int32") for k in range(len(copies.ty.shape))]
    at = [tirx.Var(f"v{k}", "int32") for k in range(len(loops))]
    sums = not written[0].same_as(copies)
    kinds = [tirx.IterVar.CommReduce if sums else tirx.IterVar.DataPar]
    kinds += [tirx.IterVar.DataPar] * len(at[1:])
    axes = [
        tirx.IterVar(Range(0, extent), var, kind)
        for extent, var, kind in zip(copies.ty.shape, at, kinds, strict=True)
    ]
    (target,) = written
    here = target[tuple(slice(one, one + 1) for one in (at[1:] if sums else at))]
    reads = [here, copies[tuple(slice(one, one + 1) for one in at)]] if sums else []
    block = SBlock(axes, reads, [here], name, body(at))
    stmt: Any = SBlockRealize(loops, tirx.const(True, "bool"), block)
    for var, extent in zip(reversed(loops), reversed(copies.ty.shape), strict=True):
        stmt = tirx.For(var, tirx.const(0, "int32"), extent, tirx.ForKind.SERIAL, stmt)
    return stmt


# -- Sums that primitives take: with a fused epilogue, or padded extents --------------------------


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


def pad_einsum(sch: TVMSchedule, block: Any, padding: Sequence[int]) -> None:
    """Call SchedulePadEinsum; ValueError unless what is added to the sum is 0 where it is padded.

    TVM reads zeros outside of the tensors, whatever the block computes of them.
    """
    require_nest_alone(sch, block, "pad_einsum")
    own = get_statement(sch, block)
    axes = [axis.var for axis in own.iter_vars]
    for region in (*own.reads, *own.writes):
        if not all(holds(axes, one) for one in found_in(region.region, tirx.Var)):
            raise ValueError(
                f"block {own.name_hint} is inside another block, on whose variables its region of "
                f"{region.source.name} depends, and TVM would pad all of it; use pad_einsum before "
                "blockize"
            )
    for axis, multiple in zip(own.iter_vars, padding, strict=False):
        extent = constant(axis.dom.extent)
        is_whole = extent is not None and multiple > 0 and extent % multiple == 0
        if is_reduced(axis) and not is_whole and not _vanishes(own.body, axis.var):
            raise ValueError(
                f"block {own.name_hint} is no sum of products of which a factor is read at "
                f"{axis.var.name}, and TVM would add what it computes from zeros; pad other axes"
            )
    if not _is_defined_of_zeros(own.body):
        raise ValueError(
            f"block {own.name_hint} divides integers by what may be 0 where it is padded; use "
            "pad_einsum on sums of products"
        )
    _ffi.SchedulePadEinsum(sch, block, padding)


def _vanishes(body: Any, variable: Any) -> bool:
    """Return whether an update adds 0 where what is read at a variable is 0."""
    if not isinstance(body, tirx.BufferStore):
        return False
    value, total = body.value, body.buffer
    if not _adds_to(value, total, list(body.indices)):
        return False
    is_own = isinstance(value.a, TensorLoad) and value.a.source.same_as(total)
    return _has_factor(value.b if is_own else value.a, variable)


def _has_factor(value: Any, variable: Any) -> bool:
    """Return whether a product has a factor that is an element of a tensor at a variable."""
    if isinstance(value, tirx.Mul):
        return _has_factor(value.a, variable) or _has_factor(value.b, variable)
    if isinstance(value, tirx.Cast):
        return _has_factor(value.value, variable)
    return isinstance(value, TensorLoad) and any(
        mentions(index, [variable]) for index in value.indices
    )


def _is_defined_of_zeros(body: Any) -> bool:
    """Return whether no division of integers is by anything but a number."""
    divisions = found_in(body, (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod))
    return all(str(one.ty.dtype).startswith("float") or constant(one.b) for one in divisions)
