"""Statements of TVM's programs: their parts, the table of them all, and copies with another part.

The analyses read ``table_of`` a program, in which each statement has its ``Place``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_equal, structural_map

from schedlang.tvm.values import constant, extent_of, found_in, holds

_TRUE = tirx.const(True, "bool")


def parts_of(stmt: Any) -> tuple[Any, ...]:
    """Return the statements directly inside one, in order; a block's init precedes its body."""
    if isinstance(stmt, tirx.SeqStmt):
        return tuple(stmt.seq[:])
    if isinstance(stmt, SBlockRealize):
        stmt = stmt.block
    if isinstance(stmt, SBlock):
        return (stmt.body,) if stmt.init is None else (stmt.init, stmt.body)
    if isinstance(stmt, tirx.IfThenElse):
        return cases_of(stmt)
    return (stmt.body,) if isinstance(stmt, tirx.For | tirx.While | tirx.AttrStmt) else ()


def cases_of(branch: Any) -> tuple[Any, ...]:
    """Return the statements of a branch: one, or two with ``else``."""
    cases = (branch.then_case, branch.else_case)
    return cases if branch.else_case is not None else cases[:1]


def statements_in(stmt: Any) -> Iterator[Any]:
    """Yield ``stmt`` and the statements in it in program order."""
    yield stmt
    for part in parts_of(stmt):
        yield from statements_in(part)


def sequence_of(stmt: Any) -> list[Any]:
    """Return the statements of a sequence; another statement alone."""
    statements: list[Any] = stmt.seq[:] if isinstance(stmt, tirx.SeqStmt) else [stmt]
    return statements


def sequence(statements: list[Any]) -> Any:
    """Return one statement that runs several in order."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def nests_of(func: tirx.PrimFunc) -> list[Any]:
    """Return the statements directly in the root block of a function."""
    return sequence_of(func.body.block.body if isinstance(func.body, SBlockRealize) else func.body)


def bindings_of(realize: Any) -> list[tuple[Any, Any]]:
    """Return each variable of a block, as its axis, with the value that it is bound to."""
    # Slices: iterating over an FFI array takes much longer, and replays do this a lot.
    return list(zip(realize.block.iter_vars[:], realize.iter_values[:], strict=True))


# -- The table of a program's statements: what is around each ------------------------------------


class Place:
    """What is around a statement, from the outside in.

    Attributes
    ----------
    around: the loops, realized blocks, conditional statements and ``while`` loops.
    loops, blocks: those of ``around``; blocks without their realization.
    outer: what is around the last one of ``around``; None where nothing is around.
    part: which of ``parts_of`` the last one of ``around`` the statement is in.
    """

    def __init__(self, outer: Place | None = None, statement: Any = None, part: int = 0) -> None:
        self.outer = outer
        self.part = part
        self.around: tuple[Any, ...] = ()
        self.loops: tuple[Any, ...] = ()
        self.blocks: tuple[Any, ...] = ()
        if outer is not None:
            self.around = (*outer.around, statement)
            self.loops, self.blocks = outer.loops, outer.blocks
        if isinstance(statement, tirx.For):
            self.loops = (*self.loops, statement)
        elif isinstance(statement, SBlockRealize):
            self.blocks = (*self.blocks, statement.block)

    @classmethod
    def in_loops(cls, loops: Iterable[Any]) -> Place:
        """Return the place inside loops that are given from the outside in."""
        return reduce(cls, loops, cls())

    @property
    def in_init(self) -> bool:
        """Whether the innermost of ``around`` is a block, of whose initial value this is a part."""
        inside = bool(self.around) and isinstance(self.around[-1], SBlockRealize)
        return inside and not self.part and self.blocks[-1].init is not None

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a condition around may keep it from running; lengths of loops are none."""
        return any(
            not isinstance(one.predicate, tirx.IntImm)
            if isinstance(one, SBlockRealize)
            else not isinstance(one, tirx.For)
            for one in self.around
        )

    @cached_property
    def guards(self) -> tuple[Any, ...]:
        """The conditions that all hold when the statement runs; the lengths of loops are none."""
        if self.outer is None:
            return ()
        own, conditions = self.around[-1], []
        if isinstance(own, SBlockRealize):
            conditions = conjuncts_of(own.predicate)
        elif isinstance(own, tirx.IfThenElse):
            conditions = [tirx.Not(own.condition)] if self.part else conjuncts_of(own.condition)
        elif isinstance(own, tirx.While):
            conditions = [own.condition]
        return (*self.outer.guards, *conditions)

    @cached_property
    def deciding(self) -> tuple[Any, ...]:
        """All expressions around that decide whether the statement runs, and for which values."""
        return () if self.outer is None else (*self.outer.deciding, *decided_by(self.around[-1]))


def decided_by(stmt: Any) -> tuple[Any, ...]:
    """Return the expressions that decide what runs inside a statement, in program order."""
    if isinstance(stmt, tirx.For):
        return (stmt.min, stmt.extent)
    if isinstance(stmt, SBlockRealize):
        return (stmt.predicate, *stmt.iter_values)
    return (stmt.condition,) if isinstance(stmt, tirx.While | tirx.IfThenElse) else ()


def table_of(stmt: Any, place: Place | None = None) -> list[tuple[Any, Place]]:
    """Return a statement and those in it in program order, each with what is around it.

    A block's init precedes its body. ``place`` is what is around ``stmt`` itself.
    """
    rows: list[tuple[Any, Place]] = []
    _add_rows(stmt, Place() if place is None else place, rows)
    return rows


_ENTERED = (tirx.For, SBlockRealize, tirx.IfThenElse, tirx.While)


def _add_rows(stmt: Any, place: Place, rows: list[tuple[Any, Place]]) -> None:
    rows.append((stmt, place))
    enters = isinstance(stmt, _ENTERED)
    for number, part in enumerate(parts_of(stmt)):
        _add_rows(part, Place(place, stmt, number) if enters else place, rows)


@dataclass(frozen=True)
class Placed:
    """A realized block, and the loops around it from the outside in."""

    realize: Any
    loops: tuple[Any, ...]


def placed_blocks(stmt: Any, loops: tuple[Any, ...] = ()) -> list[Placed] | None:
    """Return the realized blocks of loops and sequences, in order; None for other statements.

    Blocks inside others are left out. ``loops`` are around the statement, and count as well.
    """
    if isinstance(stmt, tirx.For):
        return placed_blocks(stmt.body, (*loops, stmt))
    if isinstance(stmt, SBlockRealize):
        return [Placed(stmt, loops)]
    if not isinstance(stmt, tirx.SeqStmt):
        return None
    found: list[Placed] = []
    for part in stmt.seq:
        placed = placed_blocks(part, loops)
        if placed is None:
            return None
        found += placed
    return found


class Accesses:
    """The tensors that a part of a program accesses.

    Attributes
    ----------
    reads, writes: how often elements of each are read and written.
    """

    def __init__(self, part: Any) -> None:
        self._part = part
        self.reads = Counter(load.source for load in found_in(part, TensorLoad))
        self.writes = Counter(store.buffer for store in found_in(part, tirx.BufferStore))

    def all_of(self, tensor: Any) -> int:
        """Return the number of accesses to a tensor."""
        return self.reads[tensor] + self.writes[tensor]

    @cached_property
    def stored(self) -> list[Any]:
        """The tensors that it writes, by stores or as its blocks declare."""
        return [*self.writes, *regions_in(self._part, "write")]

    @cached_property
    def mentioned(self) -> list[Any]:
        """These, and the tensors that it reads, by loads or as its blocks declare."""
        return [*self.stored, *self.reads, *regions_in(self._part, "read")]

    def passed_on(self, other: Accesses) -> Any | None:
        """Return a tensor that one stores in and the other mentions."""
        both = [(self.stored, other.mentioned), (other.stored, self.mentioned)]
        return next((one for stored, used in both for one in stored if holds(used, one)), None)


def regions_in(part: Any, role: str) -> list[Any]:
    """Return the tensors that blocks in a part declare to read or write, as in ``regions_of``."""
    blocks = found_in(part, SBlock)
    return [region.source for block in blocks for region in regions_of(block, role)]


class Regions:
    """The buffers that stand for a part of another tensor."""

    def __init__(self) -> None:
        self._sources: dict[Any, Any] = {}

    def note(self, block: Any) -> None:
        """Note the buffers that a block declares."""
        for match in block.match_buffers:
            self._sources[match.buffer] = match.source.source

    def tensor(self, buffer: Any) -> Any:
        """Return the tensor that a buffer is, or is a part of."""
        while buffer in self._sources:
            buffer = self._sources[buffer]
        return buffer

    def is_element(self, value: Any, tensor: Any) -> bool:
        """Return whether an expression is an element of a tensor."""
        return isinstance(value, TensorLoad) and bool(self.tensor(value.source).same_as(tensor))


class BufferDefinitions(Regions):
    """These buffers, and the variables that statements bind.

    Attributes
    ----------
    bound: variables, and the expressions that they stand for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[Any, Any] = {}

    def resolved(self, expression: Any) -> Any:
        """Put what they stand for in the place of variables that are bound."""

        def replaced(var: Any) -> Any:
            return self.resolved(self.bound[var]) if var in self.bound else var

        return structural_map(expression, (tirx.Var, replaced)) if self.bound else expression


def operand_beside(
    store: Any, kinds: Any, alike: Callable[[Any, Any], bool] = structural_equal
) -> Any | None:
    """Return ``x`` of ``C[i] = C[i] + x``, for an operation of these kinds; None for others.

    ``alike`` compares the indices of both elements.
    """
    value = store.value
    if isinstance(value, kinds):
        for own, other in ((value.a, value.b), (value.b, value.a)):
            if isinstance(own, TensorLoad) and own.source.same_as(store.buffer):
                return other if all(map(alike, own.indices[:], store.indices[:])) else None
    return None


def is_spatial(axis: Any) -> bool:
    """Return whether other values of a block's variable give other elements."""
    return bool(int(axis.iter_type) == tirx.IterVar.DataPar)


def is_reduced(axis: Any) -> bool:
    """Return whether a block reduces over a variable."""
    return bool(int(axis.iter_type) == tirx.IterVar.CommReduce)


def reduces(block: Any) -> bool:
    """Return whether a block reduces over any of its variables."""
    return any(map(is_reduced, block.iter_vars))


def axes_of(block: Any) -> tuple[tuple[str, int], ...]:
    """Return kind (``"S"`` or ``"R"``) and extent of a block's variables; -1 if not constant."""
    return tuple(
        ("R" if is_reduced(axis) else "S", extent_of(axis.dom.extent)) for axis in block.iter_vars
    )


def regions_of(block: Any, role: str) -> Any:
    """Return the regions that a block reads or writes; ``role`` is "read" or "write"."""
    return block.reads if role == "read" else block.writes


def changed_loop(
    loop: Any,
    body: Any,
    *,
    kind: Any = None,
    variable: Any = None,
    start: Any = None,
    extent: Any = None,
) -> Any:
    """Return a loop with another body, kind, variable or range."""
    return tirx.For(
        loop.loop_var if variable is None else variable,
        loop.min if start is None else start,
        loop.extent if extent is None else extent,
        loop.kind if kind is None else kind,
        body,
        loop.thread_binding,
        loop.annotations,
        loop.step,
    )


def conjuncts_of(predicate: Any) -> list[Any]:
    """Return what a predicate is the conjunction of; nothing for one that always holds."""
    if isinstance(predicate, tirx.And):
        return [*conjuncts_of(predicate.a), *conjuncts_of(predicate.b)]
    return [] if constant(predicate) else [predicate]


def all_of(conditions: Sequence[Any]) -> Any:
    """Return the conjunction of conditions."""
    found = None
    for one in conditions:
        found = one if found is None else tirx.And(found, one)
    return _TRUE if found is None else found
