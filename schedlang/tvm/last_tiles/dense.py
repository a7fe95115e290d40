"""Overlapping tiles as if they were apart, where that is no difference to what is computed.

Two tiles that overlap write the same elements. Where it is proven again, of the program as it is,
that they write the same values, threads may do that at the same time, and an analysis of what
threads access may take each tile to start where it would if it had all its elements::

    start = min(outer * 8, 503)          ->     for inner in 8:
    for inner in 8: C[start + inner]                C[outer * 8 + inner]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize

from schedlang.tvm.last_tiles.around import Around
from schedlang.tvm.last_tiles.guards import Guard
from schedlang.tvm.last_tiles.moves import moves
from schedlang.tvm.last_tiles.repeatable import Accesses, Owner, has_plain_accesses
from schedlang.tvm.last_tiles.tiles import Nest, with_each
from schedlang.tvm.linear import Digit, Linear, linear_of
from schedlang.tvm.parts import (
    Placed,
    bindings_of,
    changed_loop,
    conjuncts_of,
    sequence,
    sequence_of,
)
from schedlang.tvm.program import with_root_body
from schedlang.tvm.values import constant, found_in, holds, substituted


def with_dense_tiles(mod: IRModule) -> IRModule:
    """Return a module whose overlapping tiles are apart; tiles of which that is not proven stay."""
    return with_each(mod, _dense)


def _dense(func: tirx.PrimFunc) -> tirx.PrimFunc:
    root = func.body
    if not isinstance(root, SBlockRealize) or not found_in(root, tirx.Bind):
        return func
    if not has_plain_accesses(root):
        return func
    allocated, program = root.block.alloc_buffers[:], Accesses(root)
    nests = sequence_of(root.block.body)
    made = [_Dense(Owner(allocated, program, nest), nest).of(nest, ()) for nest in nests]
    return with_root_body(func, sequence(made))


@dataclass(frozen=True)
class _Start:
    """The variable of a tile's start, ``min(begin, latest)``."""

    variable: Any
    begin: Any
    latest: int

    @property
    def linear(self) -> Linear:
        """The variable as an index."""
        values = self.latest + 1
        return Linear({Digit(self.variable, 1, values, values): 1})


class _Dense(Nest):
    """Puts tiles of one nest apart."""

    def of(self, stmt: Any, outer: Sequence[Any]) -> Any:
        """Return a statement whose tiles are apart; ``outer`` are the loops around it."""
        if isinstance(stmt, tirx.SeqStmt):
            return sequence([self.of(one, outer) for one in stmt.seq])
        if not self.may_enter(stmt):
            return stmt
        loops = [*outer, stmt]
        return changed_loop(stmt, self._apart(stmt.body, loops) or self.of(stmt.body, loops))

    def _apart(self, body: Any, loops: Sequence[Any]) -> Any | None:
        """Return the body of loops that begins with starts of tiles, with these tiles apart."""
        condition = None
        inside = body
        if isinstance(body, tirx.IfThenElse) and body.else_case is None:
            condition, inside = body.condition, body.then_case
        statements = sequence_of(inside)
        starts: list[_Start] = []
        for one in statements:
            start = _start_of(one)
            if start is None:
                break
            starts.append(start)
        rest = sequence(statements[len(starts) :]) if len(starts) < len(statements) else None
        blocks = None if rest is None or not starts else self.blocks_in(rest)
        if blocks is None:
            return None
        extents = dict(self.extents) | {one.variable: one.latest + 1 for one in starts}
        outside = [*(loop.loop_var for loop in loops), *(one.variable for one in starts)]
        around = Around(extents, outside)
        part = Accesses(rest)
        private = self.owner.private(part)
        if not self.owner.may_repeat(part, private, blocks, around):
            return None
        if not all(_is_same_each_time(one, blocks, private, around) for one in starts):
            return None
        found = substituted(rest, {one.variable: one.begin for one in starts})
        return found if condition is None else tirx.IfThenElse(condition, found, None)


def _start_of(stmt: Any) -> _Start | None:
    if not isinstance(stmt, tirx.Bind) or not isinstance(stmt.value, tirx.Min):
        return None
    latest = constant(stmt.value.b)
    return None if latest is None or latest < 0 else _Start(stmt.var, stmt.value.a, latest)


def _is_same_each_time(
    start: _Start, blocks: Sequence[Placed], private: Sequence[Any], around: Around
) -> bool:
    """Return whether tiles that overlap store the same values where they do."""
    begin = linear_of(start.begin, around.extents)
    if begin is None:
        return False
    realizes = [one.realize for one in blocks]
    if not all(_is_about(realize, begin, around) for realize in realizes):
        return False
    stores_outside = [
        realize
        for realize in realizes
        if not all(holds(private, one) for one in Accesses(realize.block).writes)
    ]
    found = [_guard(realize, start, around) for realize in stores_outside]
    guards = [guard for guard in found if guard is not None]
    if len(guards) < len(found) or len({guard.size for guard in guards}) != 1:
        return False
    own = dict(zip(map(id, stores_outside), guards, strict=True))
    return all(
        moves(realize, own.get(id(realize), guards[0]), around, in_tile=id(realize) not in own)
        for realize in realizes
    )


def _is_about(realize: Any, begin: Linear, around: Around) -> bool:
    """Return whether a block depends on the tile by its start alone."""
    values = [linear_of(value, around.extents) for _, value in bindings_of(realize)]
    values += [around.less(part) for part in conjuncts_of(realize.predicate)]
    return all(one is not None and one.is_apart(begin) for one in values)


def _guard(realize: Any, start: _Start, around: Around) -> Guard | None:
    """Return the guard that a block would have: of the index that moves with the start."""
    for _, value in bindings_of(realize):
        linear = linear_of(value, around.extents)
        factor = None if linear is None else linear.factor_of(start.linear)
        if linear is None or not factor:
            continue
        _, inner = around.split(linear)
        terms: dict[Digit, int] = {}
        size = 1
        for digit, step in sorted(inner.terms.items(), key=lambda term: term[1]):
            if factor == 1 and step == size:
                terms[digit] = step
                size *= digit.extent
        return Guard(start.linear, Linear(terms), start.latest + size) if terms else None
    return None
