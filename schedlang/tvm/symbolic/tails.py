"""Tiles that are cut off: a version without guards for each number of iterations left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm_ffi import structural_equal, structural_map, structural_walk

from schedlang.tvm.parts import Placed, all_of, changed_loop, conjuncts_of, placed_blocks

# Largest extent of a loop that has versions: one for each number of iterations below it.
_MOST = 16


@dataclass(frozen=True)
class Cut:
    """Loops that are cut off at the same iteration.

    Attributes
    ----------
    left: number of iterations that are run, where it is less than ``extent``.
    extent: of each of the loops.
    variables: of the loops.
    guards: parts of predicates that say so.
    """

    left: Any
    extent: int
    variables: Sequence[Any]
    guards: Sequence[Any]


def versions_of_tail(stmt: Any, cut: Cut) -> Any:
    """Return a statement with a version for each number of iterations that guards leave.

    Each version has a constant number of iterations and no guards. For any other number the
    statement is unchanged.
    """
    found = stmt
    for count in range(1, cut.extent):
        condition = tirx.EQ(cut.left, tirx.const(count, cut.left.ty.dtype))
        found = tirx.IfThenElse(condition, _version(stmt, cut, count), found)
    return found


def cut_of(stmt: Any, known: Sequence[Any]) -> Cut | None:
    """Return where loops of a statement are cut off.

    That is of loops with the same constant extent, of which guards run the first ``n`` iterations,
    and ``n`` follows from the variables in ``known``. None for a statement of any other form.
    """
    blocks = placed_blocks(stmt)
    if blocks is None or any(_has_guards_inside(one.realize.block) for one in blocks):
        return None
    return _cut_of(blocks, known)


def _has_guards_inside(block: Any) -> bool:
    inner: list[Any] = []
    structural_walk(block, (SBlockRealize, inner.append), order="pre")
    return any(conjuncts_of(one.predicate) for one in inner)


def _cut_of(blocks: Sequence[Placed], known: Sequence[Any]) -> Cut | None:
    analyzer = Analyzer()
    left, extents = None, set()
    variables: list[Any] = []
    guards: list[Any] = []
    for one in blocks:
        for guard in conjuncts_of(one.realize.predicate):
            found = _first_iterations(guard, one.loops, known, analyzer)
            if found is None:
                continue
            loop, own = found
            if left is not None and not structural_equal(left, own):
                return None
            left = own
            extents.add(int(loop.extent))
            guards.append(guard)
            variables.append(loop.loop_var)
    if left is None or len(extents) > 1:
        return None
    [extent] = extents
    # A loop that is made shorter must hold nothing that is not guarded.
    for one in blocks:
        around = [loop for loop in one.loops if among(loop.loop_var, variables)]
        own = [part for part in conjuncts_of(one.realize.predicate) if among(part, guards)]
        cut = [var for part, var in zip(guards, variables, strict=True) if among(part, own)]
        if not all(_counts_up(loop) and among(loop.loop_var, cut) for loop in around):
            return None
    return Cut(left, extent, variables, guards) if 1 < extent <= _MOST else None


def _first_iterations(
    guard: Any, loops: Sequence[Any], known: Sequence[Any], analyzer: Any
) -> tuple[Any, Any] | None:
    """Return the loop whose first ``n`` iterations a guard lets run, and ``n``; None for others."""
    if not isinstance(guard, tirx.LT):
        return None
    single = {loop.loop_var: loop.min for loop in loops if _is(loop.extent, 1)}
    difference = structural_map(
        guard.a - guard.b, (tirx.Var, lambda var: single.get(var, var)), order="post"
    )
    for loop in loops:
        if loop.loop_var in single or not isinstance(loop.extent, tirx.IntImm):
            continue
        if str(difference.ty.dtype) != str(loop.loop_var.ty.dtype):
            continue
        left = analyzer.simplify(loop.loop_var - difference)
        free: list[Any] = []
        # What tensors hold may change meanwhile.
        structural_walk(left, (TensorLoad, free.append), order="pre")
        structural_walk(left, (tirx.Var, free.append), order="pre")
        if all(among(one, known) for one in free):
            return loop, left
    return None


def _version(stmt: Any, cut: Cut, count: int) -> Any:
    """Return the statement with ``count`` iterations of the loops that are cut off."""

    def shorter(loop: Any) -> Any:
        if not among(loop.loop_var, cut.variables):
            return loop
        return changed_loop(loop, loop.body, extent=tirx.const(count, loop.extent.ty.dtype))

    free = without_guards(stmt, cut.guards)
    return with_own_variables(structural_map(free, (tirx.For, shorter), order="post"))


def _counts_up(loop: Any) -> bool:
    plain = loop.kind != tirx.ForKind.THREAD_BINDING and loop.step is None
    return plain and _is(loop.min, 0)


def _is(value: Any, number: int) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == number


def without_guards(stmt: Any, guards: Sequence[Any]) -> Any:
    """Return a statement whose blocks' predicates lack some parts."""

    def freed(realize: Any) -> Any:
        kept = [one for one in conjuncts_of(realize.predicate) if not among(one, guards)]
        return SBlockRealize(realize.iter_values, all_of(kept), realize.block)

    return structural_map(stmt, (SBlockRealize, freed), order="post")


def among(one: Any, others: Sequence[Any]) -> bool:
    """Return whether it is one of the others, and not only equal to it."""
    return any(one.same_as(other) for other in others)


def with_own_variables(stmt: Any) -> Any:
    """Return a statement with variables and tensors of its own, as far as it defines them."""
    own: dict[Any, Any] = {}

    def note(var: Any) -> None:
        own[var] = tirx.Var(var.name, var.ty)

    def enter_loop(loop: Any) -> None:
        note(loop.loop_var)

    def enter_binding(binding: Any) -> None:
        note(binding.var)

    def enter_block(block: Any) -> None:
        for axis in block.iter_vars:
            note(axis.var)
        for buffer in block.alloc_buffers:
            note(buffer)
        for match in block.match_buffers:
            note(match.buffer)

    structural_walk(stmt, (tirx.For, enter_loop), order="pre")
    structural_walk(stmt, (tirx.Bind, enter_binding), order="pre")
    structural_walk(stmt, (SBlock, enter_block), order="pre")
    return structural_map(stmt, (tirx.Var, lambda var: own.get(var, var)))
