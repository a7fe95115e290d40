"""Several chains of updates instead of one: an addition does not wait for the one before it.

A loop whose iterations update the same element, as the sum of a row of a sparse matrix, takes at
least the latency of an addition for each. Every chain has a copy of the element, and takes every
so-many-th iteration; the copies are then combined. Iterations behind the last whole turn, of a loop
whose length the data say, update the element itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

from schedlang.tvm.program import changed_block
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    get_sref,
    get_statement,
    path_to,
    replace,
    scope_of,
)
from schedlang.tvm.schedule.updates import (
    neutral_of,
    new_names,
    require_alone,
    require_update,
    update_of,
)
from schedlang.tvm.statements import bindings_of, changed_loop, sequence, sequence_of
from schedlang.tvm.values import constant, holds, mentions, substituted

_SERIAL = int(tirx.ForKind.SERIAL)
Axes = list[tuple[Any, Any]]
"""Variables of a block, as axes, with the values that they are bound to."""


def has_one_chain(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block updates the same element in all iterations of its innermost loop."""
    old, sref = get_statement(sch, block), get_sref(sch, block)
    nest = None if sref.parent is None else sref.parent.stmt
    if not isinstance(nest, tirx.For) or update_of(old) is None:
        return False
    return isinstance(nest.body, SBlockRealize) and not _moves(nest, nest.body)


def update_in_chains(sch: TVMSchedule, block: Any, loop: Any, chains: int) -> None:
    """Let ``chains`` copies of an element be updated in turns by a loop, and combine them after.

    ValueError where the block does more than update one element, or is not alone in the loop.
    """
    nest, old = get_statement(sch, loop), get_statement(sch, block)
    name, store, sref = old.name_hint, require_update(old), get_sref(sch, loop)
    root, shown, length = scope_of(sref), nest.loop_var.name, constant(nest.extent)
    if root.parent is not None:
        raise ValueError(f"block {name} is inside another block")
    realize = require_alone(sch, root, nest, old, store)
    if not isinstance(nest.body, SBlockRealize):
        raise ValueError(f"loop {shown} is not the innermost one around block {name}")
    if int(nest.kind) != _SERIAL or nest.annotations or constant(nest.min) != 0:
        raise ValueError(f"loop {shown} is not a serial loop from 0 on, without annotations")
    if _moves(nest, realize):
        raise ValueError(f"block {name} updates another element in each iteration of loop {shown}")
    if mentions(realize.predicate, [nest.loop_var]):
        raise ValueError(f"whether block {name} runs depends on the iteration of loop {shown}")
    if mentions(nest.extent, [store.buffer]):
        raise ValueError(f"the length of loop {shown} depends on what block {name} updates")
    if chains < 2 or (length is not None and length < chains):
        raise ValueError(f"chains={chains}; give 2 or more, and no more than loop {shown} is long")
    around = [one.stmt for one in path_to(sref) if isinstance(one.stmt, tirx.For)]
    names = new_names(root, old, ("chains_start", "chains_sum", "rest"), "several chains")
    made, copies, update = _chains(names, realize, nest, around, chains)

    def in_place(stmt: Any) -> list[Any]:
        return made if stmt.same_as(nest) else [stmt]

    def in_sequence(stmt: Any) -> Any:
        parts = sequence_of(stmt)
        changed = holds(parts, nest)
        return sequence([new for one in parts for new in in_place(one)]) if changed else stmt

    body = structural_map(root.stmt.body, (tirx.SeqStmt, in_sequence))
    body = structural_map(body, (tirx.For, lambda one: sequence(in_place(one))))
    new = changed_block(root.stmt, body=body, allocated=[*root.stmt.alloc_buffers, copies])
    replace(sch, root, new, {root.stmt: new, old: update})


def _bindings(nest: Any, realize: Any) -> tuple[Axes, Axes]:
    """Return the variables of a block that are the same in all iterations of a loop, and others."""
    same, varying = Axes(), Axes()
    for axis, value in bindings_of(realize):
        (varying if mentions(value, [nest.loop_var]) else same).append((axis, value))
    return same, varying


def _moves(nest: Any, realize: Any) -> bool:
    """Return whether the element that a block updates depends on a loop's iteration."""
    varying = [nest.loop_var, *(axis.var for axis, _ in _bindings(nest, realize)[1])]
    return any(mentions(one, varying) for one in realize.block.body.indices)


def _chains(
    names: Sequence[str], realize: Any, nest: Any, around: Sequence[Any], chains: int
) -> tuple[list[Any], Any, Any]:
    """Return what comes in the place of a loop, the copies, and the block that updates them."""
    store, dtype, length = realize.block.body, str(nest.loop_var.ty), constant(nest.extent)
    whole = store.buffer
    copies = tirx.decl_buffer([chains], str(whole.ty.dtype), f"{whole.name}_chains", scope="local")
    count = tirx.const(chains, dtype)
    turns = tirx.max(tirx.floordiv(nest.extent, count), tirx.const(0, dtype))
    if length is not None:
        turns = tirx.const(length // chains, dtype)
    chain = tirx.Var(f"{nest.loop_var.name}_chain", dtype)
    update = _in_chain(realize, nest, around, copies, chain, turns)
    made = [
        _start(names[0], copies, store, dtype),
        changed_loop(nest, _loop(chain, count, update), extent=turns),
        _sum(names[1], realize, nest, copies, turns),
    ]
    if length is None or length % chains:
        made.append(_rest(names[2], realize, nest, turns * count))
    return made, copies, update.block


def _start(name: str, copies: Any, store: Any, dtype: str) -> Any:
    """Return the loop that gives every copy the neutral element."""
    chain, part = tirx.Var("chain", dtype), tirx.Var("vchain", dtype)
    count, at = tirx.const(int(copies.ty.shape[0]), dtype), _at(copies, [part])
    body = tirx.BufferStore(copies, neutral_of(store), [part])
    block = SBlock([_axis(part, count)], [], [at], name, body)
    return _loop(chain, count, SBlockRealize([chain], tirx.const(True, "bool"), block))


def _in_chain(
    realize: Any, nest: Any, around: Sequence[Any], copies: Any, chain: Any, turns: Any
) -> Any:
    """Return the update of the copy of a chain.

    Variables that depend on the iteration become sums of those of the turn, the chain and the
    loops around: TVM allocates what a block accesses outside of all loops that its opaque
    variables are bound to, so that the copies would not be private to iterations of these loops.
    The number of turns has a constant bound: TVM loses blocks whose ranges change with a loop.
    """
    old, store, dtype = realize.block, realize.block.body, str(chain.ty)
    same, varying = _bindings(nest, realize)
    kept = [pair for pair in same if mentions(store.value, [pair[0].var])]
    part, turn = tirx.Var("vchain", dtype), tirx.Var("vturn", dtype)
    count = tirx.const(int(copies.ty.shape[0]), dtype)
    most = tirx.const(int(tirx.max_value(dtype).value) // int(copies.ty.shape[0]), dtype)
    most = turns if constant(turns) is not None else most
    used = [
        loop for loop in around if any(mentions(value, [loop.loop_var]) for _, value in varying)
    ]
    fresh = {axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis, _ in kept}
    outer = {loop.loop_var: tirx.Var(f"v{loop.loop_var.name}", loop.loop_var.ty) for loop in used}
    inside = {**outer, nest.loop_var: turn * count + part}
    values = {**fresh, **{axis.var: substituted(value, inside) for axis, value in varying}}
    axes = [
        _axis(part, count),
        _axis(turn, most, tirx.IterVar.CommReduce),
        *(tirx.IterVar(axis.dom, fresh[axis.var], tirx.IterVar.DataPar) for axis, _ in kept),
        *(_axis(outer[loop.loop_var], loop.extent) for loop in used),
    ]
    at = [chain, nest.loop_var, *(value for _, value in kept), *(loop.loop_var for loop in used)]
    body = tirx.BufferStore(copies, _moved(store, values, copies, [part]), [part])
    block = _block(old.name_hint, axes, body, _others(old, values), old.annotations)
    return SBlockRealize(at, realize.predicate, block)


def _sum(name: str, realize: Any, nest: Any, copies: Any, turns: Any) -> Any:
    """Return the loop that adds all copies to the element.

    Without a turn there may be no such element: no iteration of the loop has touched it.
    """
    store, dtype = realize.block.body, str(nest.loop_var.ty)
    kept, _ = _bindings(nest, realize)
    chain, part = tirx.Var("chain", dtype), tirx.Var("vchain", dtype)
    count = tirx.const(int(copies.ty.shape[0]), dtype)
    fresh = {axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis, _ in kept}
    axes = [_axis(part, count, tirx.IterVar.CommReduce), *_renamed(kept, fresh)]
    place = [substituted(one, fresh) for one in store.indices]
    whole = tirx.BufferLoad(store.buffer, place)
    value = type(store.value)(whole, tirx.BufferLoad(copies, [part]))
    body = tirx.BufferStore(store.buffer, value, place)
    block = _block(name, axes, body, [_at(copies, [part])])
    runs = realize.predicate
    if constant(turns) is None:
        some = turns > tirx.const(0, dtype)
        runs = some if constant(runs) else tirx.And(some, runs)
    return _loop(chain, count, SBlockRealize([chain, *(at for _, at in kept)], runs, block))


def _rest(name: str, realize: Any, nest: Any, done: Any) -> Any:
    """Return the loop over the iterations behind those ``done``, which update the element."""
    old, store, bindings = realize.block, realize.block.body, bindings_of(realize)
    further = tirx.Var(f"{nest.loop_var.name}_rest", nest.loop_var.ty)
    fresh = {axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis, _ in bindings}
    place = [substituted(one, fresh) for one in store.indices]
    body = tirx.BufferStore(store.buffer, _moved(store, fresh, store.buffer, place), place)
    block = _block(name, _renamed(bindings, fresh), body, _others(old, fresh), old.annotations)
    at = [substituted(value, {nest.loop_var: done + further}) for _, value in bindings]
    return _loop(further, nest.extent - done, SBlockRealize(at, realize.predicate, block))


def _loop(variable: Any, extent: Any, body: Any) -> Any:
    return tirx.For(variable, tirx.const(0, str(variable.ty)), extent, tirx.ForKind.SERIAL, body)


def _axis(variable: Any, extent: Any, kind: Any = tirx.IterVar.DataPar) -> Any:
    return tirx.IterVar(Range(tirx.const(0, str(variable.ty)), extent), variable, kind)


def _renamed(bindings: Axes, fresh: Mapping[Any, Any]) -> list[Any]:
    """Return axes with variables of their own, as no two blocks share one."""
    return [tirx.IterVar(axis.dom, fresh[axis.var], axis.iter_type) for axis, _ in bindings]


def _moved(store: Any, values: Mapping[Any, Any], target: Any, place: Sequence[Any]) -> Any:
    """Return what an update stores, with other variables and at another place."""

    def moved(load: Any) -> Any:
        return tirx.BufferLoad(target, place) if load.source.same_as(store.buffer) else load

    return structural_map(substituted(store.value, values), (TensorLoad, moved))


def _others(block: Any, values: Mapping[Any, Any]) -> list[Any]:
    """Return the regions that an update reads of other tensors."""
    updated = block.body.buffer
    return [substituted(one, values) for one in block.reads if not one.source.same_as(updated)]


def _block(
    name: str, axes: Sequence[Any], body: Any, reads: Sequence[Any], annotations: Any = None
) -> Any:
    """Return a block that updates one element."""
    own = _at(body.buffer, body.indices)
    return SBlock(axes, [own, *reads], [own], name, body, None, [], [], annotations or {})


def _at(buffer: Any, indices: Sequence[Any]) -> Any:
    return buffer[tuple(slice(one, one + 1) for one in indices)]
