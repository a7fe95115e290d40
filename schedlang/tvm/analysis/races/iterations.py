"""What each iteration of a parallel loop accesses, and whether that is apart from the others'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.races.data import InputData, runs
from schedlang.tvm.analysis.races.intervals import (
    Interval,
    Unbounded,
    are_apart,
    holds,
    interval,
    meet,
    point,
)
from schedlang.tvm.effects import impure_calls
from schedlang.tvm.parts import bindings_of
from schedlang.tvm.values import extent_of, found_in, loads_of, mentions

# Of the loop and of those around it, together: each is looked at.
_MOST_ITERATIONS = 1 << 14


class Definition(NamedTuple):
    """A variable around a loop: a block's, with its value, or a loop's, with its range.

    Attributes
    ----------
    variable: the variable.
    value: its value, or the first one if there are several.
    extent: number of values in a row.
    """

    variable: Any
    value: Any
    extent: Any = None

    @classmethod
    def of_loop(cls, loop: Any) -> Definition:
        """Return the definition of a loop's variable."""
        return cls(loop.loop_var, loop.min, loop.extent)


class _Update(NamedTuple):
    """A store that races where iterations have the same element.

    Attributes
    ----------
    buffer, indices: of the element.
    defined: how many variables were defined before it, inside the loop.
    guards: the conditions under which iterations execute it.
    adds: the new value is computed from the old one; else it differs from one iteration to the
        next where the element is the same.
    """

    buffer: Any
    indices: Sequence[Any]
    defined: int
    guards: tuple[Any, ...]
    adds: bool


class Race(NamedTuple):
    """Iterations that write the same elements in any order.

    Attributes
    ----------
    buffer: what they write.
    assumed: they do so where indices that the program reads from its inputs are equal; else always.
    adds: new values are computed from old ones, so that some are lost.
    """

    buffer: Any
    assumed: bool
    adds: bool


class _Region(NamedTuple):
    """What a buffer stands for: a part of another one, and its bounds if they are known."""

    source: Any
    box: list[Interval] | None


class Iterations:
    """The iterations of a parallel loop.

    For each buffer that they write, all that one of them accesses is bounded by a box. A buffer
    that is allocated inside the loop is each iteration's own.

    Attributes
    ----------
    apart: whether the boxes of the iterations are apart, so that none races with another. False
        where an access cannot be bounded, or where the iterations are too many to look at each.
    race: a race that was found; None if there was none.
    """

    def __init__(self, loop: Any, around: Sequence[Definition], data: InputData) -> None:
        self._data = data
        self._guards: list[Any] = []
        self._varying = [loop.loop_var]
        self._inside: list[Definition] = []
        self._updates: list[_Update] = []
        self._own: set[Any] = set()
        self._regions: dict[Any, _Region] = {}
        self._boxes: dict[Any, list[Interval]] = {}
        self._written = _written_in(loop.body)
        self._bounded = self._certain = True
        self._extent = extent_of(loop.extent, 0)
        self._outer = 1
        self._known: dict[Any, Interval] = {}
        self._enumerate((*around, Definition.of_loop(loop)))
        outside = dict(self._known)
        self._read(loop.body, always=self._extent > 1)
        self.apart = self._bounded and all(
            are_apart(box, self._outer, self._extent) for box in self._boxes.values()
        )
        updates = self._updates if self._certain and not self.apart else []
        found = (self._race_of(update, outside) for update in updates)
        self.race = next((race for race in found if race is not None), None)

    def _enumerate(self, definitions: Sequence[Definition]) -> None:
        """List the values of the variables that are defined outside the body; the first of many."""
        extents = [extent_of(d.extent, 0) for d in definitions if d.extent is not None]
        total = int(np.prod(extents, dtype=np.float64))
        if total == 0:
            self._bounded = False
            return
        if total > _MOST_ITERATIONS:
            self._bounded = False
            self._extent = min(self._extent, _MOST_ITERATIONS)
            extents = [1] * (len(extents) - 1) + [self._extent]
            total = self._extent
        self._outer = total // self._extent
        grids = iter(np.indices(extents).reshape(len(extents), -1))
        for variable, value, extent in definitions:
            try:
                first = interval(value, self._known)
            except Unbounded:
                continue
            step = point(0 if extent is None else next(grids))
            self._known[variable] = Interval(first.low + step.low, first.high + step.high)

    def _read(self, stmt: Any, *, always: bool) -> None:
        """Read a statement; ``always`` says whether every iteration executes it."""
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                self._read(part, always=always)
        elif isinstance(stmt, tirx.For):
            self._read_loop(stmt, always)
        elif isinstance(stmt, SBlockRealize):
            self._read_block(stmt, always)
        elif isinstance(stmt, tirx.BufferStore):
            self._read_store(stmt, always)
        elif isinstance(stmt, tirx.IfThenElse):
            self._note_loads(stmt.condition)
            self._read_guarded(stmt.then_case, stmt.condition, always)
            if stmt.else_case is not None:
                self._read_guarded(stmt.else_case, tirx.Not(stmt.condition), always)
        elif isinstance(stmt, tirx.While):
            self._note_loads(stmt.condition)
            self._read(stmt.body, always=False)
        elif isinstance(stmt, tirx.AttrStmt):
            self._note_loads(stmt.value)
            self._read(stmt.body, always=always)
        elif isinstance(stmt, tirx.Bind):
            self._define(stmt.var, stmt.value)
        elif isinstance(stmt, tirx.Evaluate):
            self._note_loads(stmt.value)
            # It may leave the iteration.
            self._certain = self._certain and not impure_calls(stmt.value)
        elif isinstance(stmt, tirx.AllocBuffer):
            self._own.add(stmt.buffer)
        else:
            self._bounded = self._certain = False

    def _read_guarded(self, stmt: Any, condition: Any, always: bool) -> None:
        """Read a statement that iterations execute in which a condition holds."""
        self._guards.append(condition)
        self._read(stmt, always=always)
        self._guards.pop()

    def _define(self, variable: Any, value: Any) -> None:
        self._inside.append(Definition(variable, value))
        if self._varies(value):
            self._varying.append(variable)
        try:
            self._known[variable] = interval(value, self._known)
        except Unbounded:
            self._known.pop(variable, None)

    def _read_loop(self, loop: Any, always: bool) -> None:
        self._inside.append(Definition.of_loop(loop))
        self._note_loads(loop.extent)
        if self._varies(loop.min):
            self._varying.append(loop.loop_var)
        try:
            first, length = (interval(e, self._known) for e in (loop.min, loop.extent))
            last = first.high + np.maximum(length.high, 1) - 1
            self._known[loop.loop_var] = Interval(first.low, last)
        except Unbounded:
            self._known.pop(loop.loop_var, None)
        self._read(loop.body, always=always and runs(loop))

    def _read_block(self, realize: Any, always: bool) -> None:
        block = realize.block
        self._own.update(block.alloc_buffers)
        self._note_loads(realize.predicate)
        for axis, value in bindings_of(realize):
            self._define(axis.var, value)
        for match in block.match_buffers:
            self._match(match)
        self._read_guarded(block.body, realize.predicate, always)

    def _match(self, match: Any) -> None:
        """Note that a buffer stands for a region of another one."""
        box = self._box_of(
            [bound for dom in match.source.region for bound in (dom.min, dom.extent)]
        )
        if box is not None:
            bounds = zip(box[::2], box[1::2], strict=True)
            box = [Interval(first.low, first.high + length.high - 1) for first, length in bounds]
        self._regions[match.buffer] = _Region(match.source.source, box)

    def _read_store(self, store: Any, always: bool) -> None:
        buffer, indices = store.buffer, store.indices[:]
        loads = loads_of(store.value)
        for load in loads:
            self._note(load.source, load.indices[:])
        for index in indices:
            self._note_loads(index)
        bounded = self._note(buffer, indices)
        if not always or buffer in self._own or buffer in self._regions:
            return
        same = any(
            load.source.same_as(buffer) and all(map(structural_equal, load.indices[:], indices))
            for load in loads
        )
        own = any(load.source in self._own for load in loads)
        if same:
            races = own or _accumulates(store.value) or mentions(store.value, self._varying)
        else:
            races = not bounded and any(map(self._data.reads, indices))
            races = races and (own or self._data.varies(store.value, indices, self._varying))
        if races:
            defined, guards = len(self._inside), tuple(self._guards)
            self._updates.append(_Update(buffer, indices, defined, guards, same))

    def _varies(self, expr: Any) -> bool:
        """Whether iterations may find other values of an expression; notes what it reads."""
        if isinstance(expr, tirx.IntImm):
            return False
        return self._note_loads(expr) or mentions(expr, self._varying)

    def _note_loads(self, expr: Any) -> bool:
        """Note the elements that an expression reads; return whether there are any."""
        loads = loads_of(expr)
        for load in loads:
            self._note(load.source, load.indices[:])
        return bool(loads)

    def _note(self, buffer: Any, indices: Sequence[Any]) -> bool:
        """Note an access to an element, or to several; return whether it has bounds."""
        region = self._regions.get(buffer)
        buffer = buffer if region is None else region.source
        if buffer in self._own or buffer not in self._written:
            return True
        box = self._box_of(indices) if region is None else region.box
        if box is None:
            self._bounded = False
            return False
        before = self._boxes.get(buffer)
        if before is not None:
            box = [a.joined(b) for a, b in zip(before, box, strict=True)]
        self._boxes[buffer] = box
        return True

    def _box_of(self, indices: Sequence[Any]) -> list[Interval] | None:
        try:
            return [interval(index, self._known) for index in indices]
        except Unbounded:
            return None

    def _race_of(self, update: _Update, outside: Mapping[Any, Interval]) -> Race | None:
        """Return the race of an update: of two iterations with all loops inside at their start."""
        if update.adds and self._meet(update, outside, _nothing):
            return Race(update.buffer, assumed=False, adds=True)
        if self._meet(update, outside, self._data.determines):
            return Race(update.buffer, assumed=True, adds=update.adds)
        return None

    def _meet(
        self, update: _Update, outside: Mapping[Any, Interval], is_equal: Callable[[Any], bool]
    ) -> bool:
        """Whether two iterations have one element where all parts that ``is_equal`` are."""
        known = dict(outside)
        for variable, value, _ in self._inside[: update.defined]:
            known.pop(variable, None)
            with suppress(Unbounded):
                known[variable] = interval(value, known, is_equal)
        try:
            indices = [interval(index, known, is_equal) for index in update.indices]
        except Unbounded:
            return False
        reached = np.asarray(True)
        for guard in update.guards:
            if not self._data.leaves_open(guard, self._varying):
                reached = reached & holds(guard, known)
        return meet(indices, self._outer, self._extent, reached)


def _nothing(expr: Any) -> bool:
    """No two values that a program reads are taken as equal."""
    return False


def _accumulates(value: Any) -> bool:
    """Whether a new value differs from the old one that it is computed from, however often."""
    return isinstance(value, tirx.Add | tirx.Sub | tirx.Mul)


def _written_in(body: Any) -> set[Any]:
    """Return the buffers that are written, and those that a written one is a region of."""
    written = {store.buffer for store in found_in(body, tirx.BufferStore)}
    for block in found_in(body, SBlock):
        written.update(m.source.source for m in block.match_buffers if m.buffer in written)
    return written
