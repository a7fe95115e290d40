"""What the concurrent loops of a program access, and what else happens in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import Call
from tvm.s_tir import SBlockRealize
from tvm_ffi import structural_equal, structural_walk

from schedlang.tvm.analysis.index_sums import IndexSums
from schedlang.tvm.statements import bindings_of, conjuncts_of, is_reduced
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
        self._path: tuple[Any, ...] = ()
        self._inside = 0
        self._guards: tuple[Any, ...] = ()
        self._reduced: frozenset[Any] = frozenset()
        self._block: Any = None
        self._has_addresses = any(called(call) in _ADDRESSES for call in found_in(body, Call))
        self._read(body)
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

    def _read(self, stmt: Any) -> None:
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq[:]:
                self._read(part)
        elif isinstance(stmt, tirx.For):
            self._read_loop(stmt)
        elif isinstance(stmt, SBlockRealize):
            self._read_block(stmt)
        elif isinstance(stmt, tirx.BufferStore):
            self._read_store(stmt)
        elif isinstance(stmt, tirx.IfThenElse):
            self._ask(stmt.condition)
            self._read_guarded(stmt.then_case, conjuncts_of(stmt.condition))
            if stmt.else_case is not None:
                self._read_guarded(stmt.else_case, [tirx.Not(stmt.condition)])
        elif isinstance(stmt, tirx.While):
            self._ask(stmt.condition)
            self._read_guarded(stmt.body, [stmt.condition])
        elif isinstance(stmt, tirx.AttrStmt):
            self._ask(stmt.value)
            self._read(stmt.body)
        elif isinstance(stmt, tirx.Bind):
            self._define(stmt.var, stmt.value)
        elif isinstance(stmt, tirx.Evaluate):
            self._ask(stmt.value)
        elif isinstance(stmt, tirx.AllocBuffer):
            self.allocated[stmt.buffer] = self._path
        elif isinstance(stmt, tirx.DeclBuffer):
            self._declare(stmt)
        elif isinstance(stmt, tirx.Break | tirx.Continue):
            pass  # it only makes accesses fewer
        elif self._inside:
            self.effects.append(Effect(f"contain {type(stmt).__name__}", self._path))
        else:  # of what is inside, nothing is known
            structural_walk(stmt, [(tirx.For, self._note_unknown)])

    def _note_unknown(self, loop: Any) -> None:
        if int(loop.kind) in self._kinds:
            self.loops.append((loop, ()))
            self.effects.append(Effect("are inside of a statement that is not known", (loop,)))

    def _read_loop(self, loop: Any) -> None:
        self._ask(loop.min)
        self._ask(loop.extent)
        self._define_loop(loop)
        path, inside = self._path, self._inside
        if int(loop.kind) in self._kinds:
            self.loops.append((loop, path))
            self._inside += 1
        self._path = (*path, loop)
        self._read(loop.body)
        self._path, self._inside = path, inside

    def _define_loop(self, loop: Any) -> None:
        if loop.step is not None and constant(loop.step) != 1:
            self.effects.append(Effect("contain a loop with a step", (*self._path, loop)))
        self.sums.define_loop(loop)

    def _define(self, variable: Any, value: Any) -> None:
        self._ask(value)
        self.sums.define(variable, value)

    def _read_block(self, realize: Any) -> None:
        block = realize.block
        for buffer in block.alloc_buffers:
            self.allocated[buffer] = self._path
        self._ask(realize.predicate)
        reduced = self._reduced
        for axis, value in bindings_of(realize):
            self._define(axis.var, value)
            if is_reduced(axis):
                self._reduced |= self.sums.loops_in(value)
        for match in block.match_buffers:
            self._regions[match.buffer] = _AccessedRegion(match.source.source, match.source.region)
        outer, self._block = self._block, block
        self._read_guarded(block.body, conjuncts_of(realize.predicate))
        self._block, self._reduced = outer, reduced

    def _read_guarded(self, stmt: Any, conditions: Sequence[Any]) -> None:
        guards = self._guards
        self._guards = (*guards, *conditions)
        self._read(stmt)
        self._guards = guards

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
                    self.effects.append(Effect(words, self._path, is_call=True))

    def _note_declared(self, buffer: Any, call: Any) -> bool:
        """Note that a function may access a tensor; False where no block says which elements."""
        block = self._block
        if block is None:
            return False
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
            ElementAccess(buffer, known, store, self._path, self._guards, self._reduced, by_call)
        )


_SAME = object()
"""In the place of a region: a buffer with the same elements under the same indices."""
