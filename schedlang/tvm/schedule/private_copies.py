"""Private copies of a tensor that is updated at places that the data say, as in a histogram.

Two iterations may update the same element, so they cannot run at the same time. Parts of the
iterations can, if each updates a copy of its own; the copies are then combined. The operator is
associative and commutative, and each copy starts with its neutral element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

from schedlang.tvm.parts import sequence, sequence_of
from schedlang.tvm.program import changed_block
from schedlang.tvm.schedule.ffi import TVMSchedule, get_sref, get_statement, replace, scope_of
from schedlang.tvm.schedule.updates import neutral_of, new_names, require_alone, require_update
from schedlang.tvm.values import constant, holds


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
