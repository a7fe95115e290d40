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
from tvm_ffi import structural_equal, structural_map

from schedlang.tvm.program import MAIN, changed_block
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    get_module,
    get_sref,
    get_statement,
    replace,
    scope_of,
)
from schedlang.tvm.statements import sequence, sequence_of
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
    value = store.value
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if isinstance(own, TensorLoad) and own.source.same_as(store.buffer):
            same = all(map(structural_equal, own.indices, store.indices))
            apart = not any(mentions(one, [store.buffer]) for one in (other, *store.indices))
            return store if same and apart else None
    return None


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
