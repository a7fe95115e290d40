"""Loops over tiles, of which only the last one is cut off: full tiles run without the guards.

The cut-off one, a tail, gets a version without guards for each number of iterations left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer, IntervalSet
from tvm_ffi import structural_equal, structural_map, structural_walk

from schedlang.tvm import program
from schedlang.tvm.statements import (
    Placed,
    all_of,
    changed_loop,
    conjuncts_of,
    nests_of,
    placed_blocks,
    sequence,
    sequence_of,
)

# Most copies of the blocks of a nest, by the number of blocks.
_MOST_VERSIONS = 16
# Loops whose iterations may run different code.
_KINDS = (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL, tirx.ForKind.UNROLLED)


def with_full_tiles(mod: IRModule) -> IRModule:
    """Return a scheduled program whose loops tell full tiles from cut-off ones.

    An iteration of a loop in which a guard of a block cannot fail runs the loop's body without it;
    in other iterations the loops inside do the same. The innermost tile that is cut off has a
    version for each number of iterations left (``versions_of_tail``). So a compiler does not see
    guards, which it cannot move out of the innermost loops. The program grows, within limits.
    """
    func = mod[program.MAIN]
    known = [size for one in func.params for size in one.ty.shape if isinstance(size, tirx.Var)]
    made = [_Freeing(nest).of(nest, known) for nest in nests_of(func)]
    return program.as_main(program.with_root_body(func, sequence(made)))


class _Freeing:
    """Makes versions of the loops of one nest, of which the guards are freed.

    Parameters
    ----------
    nest: the statement.
    """

    def __init__(self, nest: Any) -> None:
        # Copies of blocks that may still be made.
        self._room = _MOST_VERSIONS * _count(nest)

    def of(self, stmt: Any, known: Sequence[Any]) -> Any:
        """Return a statement with versions of its loops.

        ``known`` has the extents and the variables of the loops around it.
        """
        if not isinstance(stmt, tirx.For):
            inside = isinstance(stmt, tirx.SeqStmt)
            return sequence([self.of(one, known) for one in sequence_of(stmt)]) if inside else stmt
        if stmt.kind not in _KINDS:
            return stmt
        conditions, freed = _freed_by(stmt, known)
        known = [*known, stmt.loop_var]
        if not conditions or not self._takes(stmt.body, 1):
            return changed_loop(stmt, self._cut_off(stmt.body, known))
        # The version that runs most has its room first.
        free = self.of(without_guards(stmt.body, freed), known)
        cut_off = self._cut_off(stmt.body, known)
        body = tirx.IfThenElse(all_of(conditions), with_own_variables(free), cut_off)
        return changed_loop(stmt, body)

    def _cut_off(self, stmt: Any, known: Sequence[Any]) -> Any:
        """Return the body of a loop for an iteration that guards cut off."""
        cut = cut_of(stmt, known)
        if cut is not None and self._takes(stmt, cut.extent - 1):
            return versions_of_tail(stmt, cut)
        return self.of(stmt, known)

    def _takes(self, stmt: Any, times: int) -> bool:
        """Take room for copies of a statement; return whether there is so much."""
        wanted = times * _count(stmt)
        if wanted > self._room:
            return False
        self._room -= wanted
        return True


def _count(stmt: Any) -> int:
    blocks: list[Any] = []
    structural_walk(stmt, (SBlockRealize, blocks.append), order="pre")
    return len(blocks)


def _freed_by(loop: Any, known: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the conditions under which guards in an iteration of a loop hold, and those guards.

    A condition is about the loop's own variable and those in ``known``: another variable is not
    defined there, or is the analyzer's symbol for infinity, and what tensors hold may change
    meanwhile.
    """
    domains: dict[Any, Any] = {}
    guards: list[Any] = []

    def enter(inner: Any) -> None:
        domains[inner.loop_var] = IntervalSet(inner.min, inner.min + inner.extent - 1)

    def note(realize: Any) -> None:
        guards.extend(conjuncts_of(realize.predicate))

    structural_walk(loop.body, (tirx.For, enter), order="pre")
    structural_walk(loop.body, (SBlockRealize, note), order="pre")
    analyzer = Analyzer()
    conditions: list[Any] = []
    freed: list[Any] = []
    for guard in guards:
        always = analyzer.simplify(_always(guard, domains, analyzer))
        needed: list[Any] = []
        structural_walk(always, (TensorLoad, needed.append), order="pre")
        structural_walk(always, (tirx.Var, needed.append), order="pre")
        allowed = [loop.loop_var, *known]
        if not among(loop.loop_var, needed) or not all(among(one, allowed) for one in needed):
            continue
        freed.append(guard)
        if not any(structural_equal(always, one) for one in conditions):
            conditions.append(always)
    return conditions, freed


def _always(guard: Any, domains: Mapping[Any, Any], analyzer: Analyzer) -> Any:
    """Return a condition under which a guard holds for all values of inner loops' variables."""
    if isinstance(guard, tirx.And | tirx.Or):
        return type(guard)(*(_always(one, domains, analyzer) for one in (guard.a, guard.b)))
    if isinstance(guard, tirx.LT | tirx.LE):
        bound = analyzer.int_set(guard.a - guard.b, domains).max_value
        return type(guard)(bound, tirx.const(0, bound.ty.dtype))
    return tirx.const(False, "bool")


# -- Tails: a version without guards for each number of iterations left ---------------------------

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
