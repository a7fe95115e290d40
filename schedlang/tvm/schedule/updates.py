"""Blocks that update a tensor, ``H[f] = H[f] + x``: what may be updated in another order.

The operator is associative and commutative. Parts of the iterations may update copies that start
with its neutral element; to combine them gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_equal

from schedlang.tvm.program import MAIN
from schedlang.tvm.schedule.ffi import TVMSchedule, get_module
from schedlang.tvm.values import constant, found_in, holds, mentions

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
