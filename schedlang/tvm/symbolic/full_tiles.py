"""Loops over tiles, of which only the last one is cut off: full tiles run without the guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer, IntervalSet
from tvm_ffi import structural_equal, structural_walk

from schedlang.tvm import program
from schedlang.tvm.parts import (
    all_of,
    changed_loop,
    conjuncts_of,
    nests_of,
    sequence,
    sequence_of,
)
from schedlang.tvm.symbolic.tails import (
    among,
    cut_of,
    versions_of_tail,
    with_own_variables,
    without_guards,
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
