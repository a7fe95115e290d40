"""Tiles that do not fit: the last one starts earlier, and needs no guard.

TVM splits 511 rows into 64 tiles of 8, with the guard ``outer * 8 + inner < 511`` in the innermost
loop. No vector is left there, and no register holds a sum. A tile that starts at 503 computes one
row for the second time instead::

    for outer in 64:                               for outer in 64:
        for inner in 8:                      ->        start = min(outer * 8, 503)
            if outer * 8 + inner < 511:                for inner in 8:
                C[outer * 8 + inner] = ...                 C[start + inner] = ...

What a tile computes must be the same each time: it reads nothing that tiles change, besides
what it has computed itself, in buffers of its own. Threads may then write the same values twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.tirx import For, ForKind, PrimFunc
from tvm_ffi import structural_map

from schedlang.tvm.program import named_functions, replace_functions, with_root_body
from schedlang.tvm.schedule.repeatable import Owner, has_plain_accesses
from schedlang.tvm.schedule.tile_guards import (
    Around,
    Digit,
    Guard,
    Linear,
    each_once,
    guards_of,
    linear_of,
    moves,
)
from schedlang.tvm.statements import (
    Accesses,
    Placed,
    all_of,
    bindings_of,
    changed_loop,
    conjuncts_of,
    placed_blocks,
    sequence,
    sequence_of,
)
from schedlang.tvm.values import constant, found_in, holds, substituted

_PRAGMA = "pragma_"
# Loops whose iterations may have a start of their own, and loops inside.
_OUTER = (ForKind.SERIAL, ForKind.PARALLEL)
_INNER = (*_OUTER, ForKind.UNROLLED, ForKind.VECTORIZED)


def with_overlapping_tiles(mod: IRModule) -> IRModule:
    """Return a module whose last tiles start earlier; the same one where nothing is to be done."""
    return with_each(mod, _overlapping)


def with_each(mod: IRModule, change: Callable[[PrimFunc], PrimFunc]) -> IRModule:
    """Return a module with each function changed; the same one where none is another then."""
    changed = {
        name: new
        for name, func in named_functions(mod).items()
        if isinstance(func, PrimFunc) and not (new := change(func)).same_as(func)
    }
    return replace_functions(mod, changed) if changed else mod


def _overlapping(func: PrimFunc) -> PrimFunc:
    """Start the last tile of loops earlier, where that frees guards."""
    root = func.body
    if not isinstance(root, SBlockRealize):
        return func
    guarded = any(conjuncts_of(one.predicate) for one in found_in(root, SBlockRealize))
    if not guarded or not has_plain_accesses(root):
        return func
    allocated, program = root.block.alloc_buffers[:], Accesses(root)
    nests = sequence_of(root.block.body)
    changed = [_Overlapped(Owner(allocated, program, nest), nest).of(nest, ()) for nest in nests]
    if all(one.same_as(nest) for one, nest in zip(changed, nests, strict=True)):
        return func
    return with_root_body(func, sequence(changed))


@dataclass(frozen=True)
class _OverlappingTile:
    """A tile that starts earlier where it is the last one, and the variable of its start."""

    guard: Guard
    variable: Any

    @property
    def kind(self) -> str:
        """Type of the variable."""
        return str(self.variable.ty.dtype)

    @property
    def begin(self) -> Any:
        """Where it starts otherwise."""
        return self.guard.start.expression(self.kind)

    def moved(self, linear: Linear) -> Linear:
        """Return an index or condition of a tile that starts earlier."""
        factor = linear.factor_of(self.guard.start)
        if not factor:
            return linear
        values = self.guard.latest + 1
        start = Linear({Digit(self.variable, 1, values, values): factor})
        return linear.plus(self.guard.start, -factor).plus(start)


class TileNest:
    """The loops of one nest.

    Attributes
    ----------
    owner: knows the nest's tensors.
    extents: of the variables of its plain loops.
    """

    def __init__(self, owner: Owner, nest: Any) -> None:
        self.owner = owner
        loops = [loop for loop in found_in(nest, For) if _is_plain(loop)]
        self.extents: dict[Any, int] = {loop.loop_var: int(loop.extent) for loop in loops}
        self._is_known = len(self.extents) == len(loops)

    @staticmethod
    def may_enter(stmt: Any) -> bool:
        """Whether a statement is a loop whose iterations may have a start of their own."""
        return isinstance(stmt, For) and _is_plain(stmt) and stmt.kind in _OUTER

    def blocks_in(self, stmt: Any) -> list[Placed] | None:
        """Return the blocks in a statement in order; None where a loop around one is not plain."""
        blocks = placed_blocks(stmt) if self._is_known else None
        if blocks is None or not all(_is_simple(loop) for one in blocks for loop in one.loops):
            return None
        return blocks


class _Overlapped(TileNest):
    """Makes the loops of one nest start their last tiles earlier."""

    def of(self, stmt: Any, outer: Sequence[Any]) -> Any:
        """Return a statement whose last tiles start earlier; ``outer`` are the loops around it."""
        if isinstance(stmt, tirx.SeqStmt):
            made = [self.of(one, outer) for one in stmt.seq]
            same = all(one.same_as(old) for one, old in zip(made, stmt.seq[:], strict=True))
            return stmt if same else sequence(made)
        if not self.may_enter(stmt):
            return stmt
        loops = [*outer, stmt]
        body = self._earlier(self.of(stmt.body, loops), loops)
        return stmt if body.same_as(stmt.body) else changed_loop(stmt, body)

    def _earlier(self, body: Any, loops: Sequence[Any]) -> Any:
        blocks = self.blocks_in(body)
        if blocks is None:
            return body
        around = Around(self.extents, [loop.loop_var for loop in loops])
        guards = each_once(guard for one in blocks for guard in guards_of(one.realize, around))
        if not guards:
            return body
        part = Accesses(body)
        private = self.owner.private(part)
        if not self.owner.may_repeat(part, private, blocks, around):
            return body
        tiles: list[_OverlappingTile] = []
        for guard in guards:
            tile = self._tile(guard, blocks, private, around)
            if tile is not None and all(guard.is_apart(one.guard) for one in tiles):
                tiles.append(tile)
        return _changed(body, tiles, around) if tiles else body

    @staticmethod
    def _tile(
        guard: Guard, blocks: Sequence[Placed], private: Sequence[Any], around: Around
    ) -> _OverlappingTile | None:
        """Return the tile of a guard, if all that is computed follows from where it starts."""
        for realize in (one.realize for one in blocks):
            own = guard
            in_tile = all(holds(private, one) for one in Accesses(realize.block).writes)
            if not in_tile:
                alike = [one for one in guards_of(realize, around) if one.is_like(guard)]
                if not alike:
                    return None
                own = alike[0]
            if not moves(realize, own, around, in_tile=in_tile):
                return None
        kind = next(iter(guard.start.terms)).variable.ty
        return _OverlappingTile(guard, tirx.Var("start", kind))


def _is_plain(loop: Any) -> bool:
    known = constant(loop.min) == 0 and constant(loop.extent) is not None
    annotated = any(not str(key).startswith(_PRAGMA) for key in loop.annotations)
    known = known and str(loop.loop_var.ty.dtype).startswith("int")
    return known and loop.step is None and loop.kind in _INNER and not annotated


def _is_simple(loop: Any) -> bool:
    """Return whether a loop is plain, and has one block alone if it is vectorized.

    TVM does not widen what would be allocated in it.
    """
    vectorized = loop.kind == ForKind.VECTORIZED
    return _is_plain(loop) and not (vectorized and not isinstance(loop.body, SBlockRealize))


def _changed(body: Any, tiles: Sequence[_OverlappingTile], around: Around) -> Any:
    """Return the body of loops, of which the last tiles start earlier."""

    def moved(linear: Linear) -> Linear:
        for tile in tiles:
            linear = tile.moved(linear)
        return linear

    def value_of(value: Any) -> Any:
        linear = linear_of(value, around.extents)
        return value if linear is None else moved(linear).expression(str(value.ty.dtype))

    def changed(realize: Any) -> Any:
        kept = []
        for part in conjuncts_of(realize.predicate):
            less = around.less(part)
            if less is None:
                kept.append(part)
            elif moved(less).most >= 0:
                kind = str(part.a.ty.dtype)
                kept.append(tirx.LT(moved(less).expression(kind), tirx.const(0, kind)))
        values = [value_of(value) for _, value in bindings_of(realize)]
        return SBlockRealize(values, all_of(kept), realize.block)

    statements, conditions = [], []
    for tile in tiles:
        latest = tirx.const(tile.guard.latest, tile.kind)
        statements.append(tirx.Bind(tile.variable, tirx.min(tile.begin, latest)))
        if tile.guard.start.most >= tile.guard.stop:
            # Other tiles have no work.
            conditions.append(tile.begin < tirx.const(tile.guard.stop, tile.kind))
    inside = structural_map(body, (SBlockRealize, changed), order="post")
    found = sequence([*statements, *sequence_of(inside)])
    return tirx.IfThenElse(all_of(conditions), found, None) if conditions else found


# -- Overlapping tiles as if they were apart, where that is no difference -------------------------
#
# Two tiles that overlap write the same elements. Where it is proven again, of the program as it is,
# that they write the same values, threads may do that at the same time, and an analysis of what
# threads access may take each tile to start where it would if it had all its elements::
#
#     start = min(outer * 8, 503)          ->     for inner in 8:
#     for inner in 8: C[start + inner]                C[outer * 8 + inner]


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


class _Dense(TileNest):
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
