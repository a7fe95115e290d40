"""What the concurrent loops of a program access, and what else happens in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from tvm import tirx
from tvm.ir import Call
from tvm.s_tir import SBlockRealize
from tvm_ffi import structural_equal, structural_walk

from schedlang.tvm.analysis.index_sums import IndexSums
from schedlang.tvm.analysis.intervals import MOST_PLACES, Integers, Uncountable, values_at
from schedlang.tvm.statements import Place, bindings_of, is_reduced, table_of
from schedlang.tvm.values import called, constant, found_in, loads_of

_DATA = "tirx.buffer_data"
_ADDRESSES = (_DATA, "tirx.address_of")


class ElementAccess(NamedTuple):
    """A load or a store of an element, or of several.

    Attributes
    ----------
    buffer: the tensor, whatever name the program gives it here.
    indices: for each dimension, the first index and the number of elements, where None stands for
        one element; None for an unknown dimension.
    store: the statement, or a call that may store; None for a load.
    path: the loops around it, outermost first.
    guards: conditions under which it is executed.
    reduced: loop variables over which its block reduces.
    by_call: whether a function accesses it, which is passed the address.
    """

    buffer: Any
    indices: tuple[tuple[Any, Any] | None, ...]
    store: Any
    path: tuple[Any, ...]
    guards: tuple[Any, ...]
    reduced: frozenset[Any]
    by_call: bool = False


class Effect(NamedTuple):
    """A statement or call whose accesses are unknown.

    Attributes
    ----------
    words: what it is.
    path: the loops around it.
    is_call: whether it is a call of a function.
    """

    words: str
    path: tuple[Any, ...]
    is_call: bool = False


class _AccessedRegion(NamedTuple):
    """What a buffer stands for: a part of another one; nothing is known where ``doms`` is None."""

    source: Any
    doms: Any


class LoopAccesses:
    """The accesses of a program in loops of some kinds, in program order.

    Parameters
    ----------
    body: of a function whose blocks have no initial values.
    kinds: of the loops, as numbers of ``ForKind``.

    Attributes
    ----------
    sums: the integer expressions of the program.
    loops: of these kinds, each with the loops around it.
    found: the accesses of buffers that one of them stores to.
    effects: what else happens in them.
    allocated: the loops around the place where a buffer is allocated.
    stored: the buffers that one of these loops stores to.
    """

    def __init__(self, body: Any, kinds: Collection[int]) -> None:
        self.sums = IndexSums()
        self.loops: list[tuple[Any, tuple[Any, ...]]] = []
        self.found: list[ElementAccess] = []
        self.effects: list[Effect] = []
        self.allocated: dict[Any, tuple[Any, ...]] = {}
        self._kinds = kinds
        self._regions: dict[Any, _AccessedRegion] = {}
        self._place = Place()
        self._inside = False
        self._known: dict[Place, bool] = {}
        self._reduced: dict[Any, frozenset[Any]] = {}
        self._has_addresses = any(called(call) in _ADDRESSES for call in found_in(body, Call))
        for stmt, place in table_of(body):
            self._place = place
            self._inside = self._is_inside(place)
            self._read(stmt)
        self.stored = {access.buffer for access in self.found if access.store is not None}
        self.found = [access for access in self.found if access.buffer in self.stored]

    @property
    def aliases(self) -> Set[Any]:
        """The buffers that stand for a part of another one, or for the same memory."""
        return self._regions.keys()

    def below(self, loop: Any, around: tuple[Any, ...]) -> list[ElementAccess]:
        """Return the accesses in a loop."""
        place = len(around)
        return [one for one in self.found if len(one.path) > place and one.path[place] is loop]

    def _is_inside(self, place: Place) -> bool:
        """Return whether a place is in one of the loops, whose places were asked before."""
        if place.outer is None:
            return False
        found = self._known.get(place)
        if found is None:
            own = place.around[-1]
            found = self._known.get(place.outer, False) or (
                isinstance(own, tirx.For) and int(own.kind) in self._kinds
            )
            self._known[place] = found
        return found

    def _read(self, stmt: Any) -> None:
        if isinstance(stmt, tirx.For):
            self._read_loop(stmt)
        elif isinstance(stmt, SBlockRealize):
            self._read_block(stmt)
        elif isinstance(stmt, tirx.BufferStore):
            self._read_store(stmt)
        elif isinstance(stmt, tirx.IfThenElse | tirx.While):
            self._ask(stmt.condition)
        elif isinstance(stmt, tirx.AttrStmt | tirx.Evaluate):
            self._ask(stmt.value)
        elif isinstance(stmt, tirx.Bind):
            self._define(stmt.var, stmt.value)
        elif isinstance(stmt, tirx.AllocBuffer):
            self.allocated[stmt.buffer] = self._place.loops
        elif isinstance(stmt, tirx.DeclBuffer):
            self._declare(stmt)
        elif isinstance(stmt, tirx.SeqStmt | tirx.Break | tirx.Continue):
            pass  # the latter two only make accesses fewer
        elif self._inside:
            self.effects.append(Effect(f"contain {type(stmt).__name__}", self._place.loops))
        else:  # of what is inside, nothing is known
            structural_walk(stmt, [(tirx.For, self._note_unknown)])

    def _note_unknown(self, loop: Any) -> None:
        if int(loop.kind) in self._kinds:
            self.loops.append((loop, ()))
            self.effects.append(Effect("are inside of a statement that is not known", (loop,)))

    def _read_loop(self, loop: Any) -> None:
        self._ask(loop.min)
        self._ask(loop.extent)
        if loop.step is not None and constant(loop.step) != 1:
            around = (*self._place.loops, loop)
            self.effects.append(Effect("contain a loop with a step", around))
        self.sums.define_loop(loop)
        if int(loop.kind) in self._kinds:
            self.loops.append((loop, self._place.loops))

    def _define(self, variable: Any, value: Any) -> None:
        self._ask(value)
        self.sums.define(variable, value)

    def _read_block(self, realize: Any) -> None:
        block = realize.block
        for buffer in block.alloc_buffers:
            self.allocated[buffer] = self._place.loops
        self._ask(realize.predicate)
        reduced = self._reduced_around()
        for axis, value in bindings_of(realize):
            self._define(axis.var, value)
            if is_reduced(axis):
                reduced |= self.sums.loops_in(value)
        self._reduced[block] = reduced
        for match in block.match_buffers:
            self._regions[match.buffer] = _AccessedRegion(match.source.source, match.source.region)

    def _reduced_around(self) -> frozenset[Any]:
        """Return the loop variables over which the blocks around reduce."""
        blocks = self._place.blocks
        return self._reduced[blocks[-1]] if blocks else frozenset()

    def _declare(self, stmt: Any) -> None:
        data = stmt.data
        if not (isinstance(data, Call) and called(data) == _DATA):
            self._regions[stmt.buffer] = _AccessedRegion(stmt.buffer, None)
            return
        source = data.args[0]
        alike = structural_equal(stmt.buffer.ty, source.ty)
        self._regions[stmt.buffer] = _AccessedRegion(source, _SAME if alike else None)

    def _read_store(self, store: Any) -> None:
        if not self._inside:
            return
        self._ask(store.value)
        for index in store.indices[:]:
            self._ask(index)
        self._note(store.buffer, store.indices[:], store)

    def _ask(self, expr: Any) -> None:
        """Note the elements that an expression reads, and the calls in it."""
        if not self._inside or isinstance(expr, tirx.IntImm | tirx.Var):
            return
        for load in loads_of(expr):
            self._note(load.source, load.indices[:], None)
        if self._has_addresses:
            self._note_calls(expr)

    def _note_calls(self, expr: Any) -> None:
        """Note what functions may access by the addresses that they are passed.

        Of a tensor, they access what the block around them declares. Functions that are passed
        numbers only access no tensor.
        """
        for call in found_in(expr, Call):
            if called(call) in _ADDRESSES:
                buffer = getattr(call.args[0], "source", call.args[0])
                if not self._note_declared(buffer, call):
                    words = f"pass the address of {buffer.name!r} to a function"
                    self.effects.append(Effect(words, self._place.loops, is_call=True))

    def _note_declared(self, buffer: Any, call: Any) -> bool:
        """Note that a function may access a tensor; False where no block says which elements."""
        if not self._place.blocks:
            return False
        block = self._place.blocks[-1]
        regions = [(one.source, one.region, None) for one in block.reads[:]]
        regions += [(one.source, one.region, call) for one in block.writes[:]]
        region = self._regions.get(buffer)
        source = buffer if region is None else region.source
        found = [one for one in regions if one[0].same_as(source) or one[0].same_as(buffer)]
        for tensor, doms, store in found:
            self._note_doms(tensor, tuple((dom.min, dom.extent) for dom in doms), store, True)
        return bool(found)

    def _note(self, buffer: Any, indices: Any, store: Any) -> None:
        self._note_doms(buffer, tuple((index, None) for index in indices), store, False)

    def _note_doms(self, buffer: Any, doms: Any, store: Any, by_call: bool) -> None:
        while (region := self._regions.get(buffer)) is not None:
            if region.doms is None or doms is None:
                doms = None
            elif region.doms is not _SAME:
                doms = tuple((dom.min, dom.extent) for dom in region.doms)
            if region.source is buffer:
                break
            buffer = region.source
        known = (None,) if doms is None else doms
        self.found.append(
            ElementAccess(
                buffer,
                known,
                store,
                self._place.loops,
                self._place.guards,
                self._reduced_around(),
                by_call,
            )
        )


_SAME = object()
"""In the place of a region: a buffer with the same elements under the same indices."""


# -- Enumerating the elements that the iterations of a loop access --------------------------------

# The largest number of elements to enumerate for a tensor: a fifth of a second.
_MOST_ELEMENTS = 1 << 21


def counted_apart(
    sums: IndexSums, loop: Any, outside: frozenset[Any], accesses: Sequence[ElementAccess]
) -> tuple[bool, bool]:
    """Return whether no two iterations access one element, and if some do, whether for certain.

    ``accesses`` are of one buffer. Where they are too many, or depend on data, neither is known.
    """
    places = [
        place
        for place in range(len(accesses[0].indices))
        if all(_is_known(sums, one, place) for one in accesses)
    ]
    if not places:
        return False, False
    # Loops that only conditions depend on make the tables larger: try without them first.
    for guarded in (False, True):
        try:
            rows, certain = _rows(sums, loop, outside, accesses, places, guarded)
        except Uncountable:
            return False, False
        if not _meet(*rows):
            return True, False
        if certain or not any(access.guards for access in accesses):
            break
    return False, certain and all(len(places) == len(one.indices) for one in accesses)


def _rows(
    sums: IndexSums,
    loop: Any,
    outside: frozenset[Any],
    accesses: Sequence[ElementAccess],
    places: Sequence[int],
    guarded: bool,
) -> tuple[tuple[Integers, int], bool]:
    """Return the elements of accesses, the number of loops around, and whether they are certain."""
    used = [_loops_of(sums, access, places, guarded) for access in accesses]
    outer = [v for v in outside if any(v in one for one in used)]
    tables: list[_ElementTable] = []
    for access, one in zip(accesses, used, strict=True):
        inner = [v for v in one if v not in outside and not v.same_as(loop.loop_var)]
        tables.append(_ElementTable(sums, access, [*outer, loop.loop_var, *inner]))
        if sum(table.size for table in tables) > _MOST_ELEMENTS:
            raise Uncountable("too many elements")
    rows = np.concatenate([table.rows(places, len(outer)) for table in tables], axis=1)
    return (rows, len(outer)), all(table.certain for table in tables)


def _is_known(sums: IndexSums, access: ElementAccess, place: int) -> bool:
    """Return whether an index is one number, whatever the data are."""
    if place >= len(access.indices):
        return False
    index = access.indices[place]
    return index is not None and index[1] is None and not any(sums.asked(index[0]))


def _loops_of(
    sums: IndexSums, access: ElementAccess, places: Sequence[int], guarded: bool
) -> list[Any]:
    """Return the variables of the loops that indices, and the ranges of these, depend on.

    With ``guarded``, also those of the conditions that depend on no data.
    """
    own = {loop.loop_var: loop for loop in access.path}
    pending = [index[0] for place in places if (index := access.indices[place]) is not None]
    if guarded:
        pending += [guard for guard in access.guards if not any(sums.asked(guard))]
    wanted: set[Any] = set()
    while pending:
        for variable in sums.loops_in(pending.pop()):
            if variable not in own:
                raise Uncountable(str(variable))
            if variable not in wanted:
                wanted.add(variable)
                pending += [own[variable].min, own[variable].extent]
    return [loop.loop_var for loop in access.path if loop.loop_var in wanted]


class _ElementTable:
    """The elements of an access, for all values of some loops' variables.

    Attributes
    ----------
    size: their number.
    certain: whether these variables alone decide if the access is executed.
    """

    def __init__(self, sums: IndexSums, access: ElementAccess, axes: Sequence[Any]) -> None:
        self._sums = sums
        self._access = access
        self._axes = axes
        steps = [sums.steps(variable) for variable in axes]
        if inf in steps:
            raise Uncountable("the length of a loop")
        self._shape = [int(one) + 1 for one in steps]
        self._known: dict[Any, Integers] = {}
        self.size = prod(self._shape)
        self.certain = True

    def rows(self, places: Sequence[int], outer: int) -> Integers:
        """Return a column for each element: values of outer loops, iteration, is stored, place."""
        reached = np.ones(self._shape, bool)
        for variable in self._axes:
            extent = self._sums.loops[variable].extent
            if constant(extent) is None:
                reached &= self._offset(variable) < self._values(extent)
        for guard in self._access.guards:
            try:
                if any(self._sums.asked(guard)):
                    raise Uncountable("data")
                reached &= self._values(guard) != 0
            except Uncountable:
                self.certain = False
        stored = np.asarray(self._access.store is not None, np.int64)
        found = [self._offset(variable) for variable in self._axes[: outer + 1]]
        found.append(stored)
        for place in places:
            index = self._access.indices[place]
            found.append(self._values(None if index is None else index[0]))
        return np.stack([np.broadcast_to(one, self._shape)[reached] for one in found])

    def _values(self, expr: Any) -> Integers:
        return values_at(expr, self._value_of)

    def _offset(self, variable: Any) -> Integers:
        place = next(k for k, axis in enumerate(self._axes) if axis.same_as(variable))
        shape = [1] * len(self._shape)
        shape[place] = self._shape[place]
        return np.arange(self._shape[place], dtype=np.int64).reshape(shape)

    def _value_of(self, variable: Any) -> Integers:
        found = self._known.get(variable)
        if found is None:
            found = self._known[variable] = self._evaluated(variable)
        return found

    def _evaluated(self, variable: Any) -> Integers:
        if variable in self._sums.ambiguous:
            raise Uncountable(str(variable))
        if variable in self._sums.bound:
            return self._values(self._sums.bound[variable])
        if not any(axis.same_as(variable) for axis in self._axes):
            raise Uncountable(str(variable))
        return self._values(self._sums.loops[variable].min) + self._offset(variable)


def _meet(rows: Integers, outer: int) -> bool:
    """Return whether an element is accessed by two iterations, and stored by one."""
    if not rows.shape[1]:
        return False
    iteration, stored = rows[outer], rows[outer + 1]
    key = np.zeros(rows.shape[1], np.int64)
    size = 1
    for column in (*rows[:outer], *rows[outer + 2 :]):
        least = int(column.min())
        extent = int(column.max()) - least + 1
        size *= extent
        if size > MOST_PLACES:
            return True
        key = key * extent + (column - least)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=key[order][0] - 1))
    first = np.minimum.reduceat(iteration[order], starts)
    last = np.maximum.reduceat(iteration[order], starts)
    return bool(((first < last) & (np.maximum.reduceat(stored[order], starts) > 0)).any())
