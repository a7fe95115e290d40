"""Parts of programs that may run twice: for the same elements, they compute the same values.

They read nothing that they change, besides what the same iteration has set itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock

from schedlang.tvm.schedule.tile_guards import Around, Linear, linear_of
from schedlang.tvm.statements import (
    Accesses,
    Placed,
    bindings_of,
    conjuncts_of,
    is_reduced,
    is_spatial,
    sequence_of,
)
from schedlang.tvm.values import constant, found_in, holds, impure_calls, mentions, substituted

# Blocks that access a tensor of a tile: one that sets it, and one that reads it.
_FEWEST = 2
# Statements by which tensors may get other names.
_NAMES = (tirx.DeclBuffer, tirx.AllocBuffer, tirx.While, tirx.AttrStmt, tirx.AssertStmt)


def has_plain_accesses(root: Any) -> bool:
    """Return whether all accesses of a program are loads and stores of elements of its tensors.

    ``root`` is its realized root block. A tensor has one name then, and nothing else happens.
    """
    blocks = found_in(root, SBlock)
    renamed = any(
        one.match_buffers or (one.alloc_buffers and not one.same_as(root.block)) for one in blocks
    )
    return not (renamed or found_in(root, _NAMES) or impure_calls(root))


class Owner:
    """Knows which tensors belong to a part of a nest alone.

    Parameters
    ----------
    allocated: the tensors that the root block allocates.
    program: accesses of a program that ``has_plain_accesses``.
    nest: a statement directly in its root block.
    """

    def __init__(self, allocated: Sequence[Any], program: Accesses, nest: Any) -> None:
        self._allocated = allocated
        self._program = program
        self._nest = Accesses(nest)

    def private(self, part: Accesses) -> list[Any]:
        """Return the tensors that are allocated for a part: nothing else accesses them."""
        return [
            tensor
            for tensor in self._allocated
            if 0 < part.all_of(tensor) == self._program.all_of(tensor)
        ]

    def may_repeat(
        self, part: Accesses, private: Sequence[Any], blocks: Sequence[Placed], around: Around
    ) -> bool:
        """Return whether the body of loops may compute the same elements in several iterations.

        ``part`` are its accesses, ``private`` its own tensors, ``blocks`` its blocks in order.
        """
        not_spatial = [
            value
            for one in blocks
            for axis, value in bindings_of(one.realize)
            if not is_spatial(axis)
        ]
        if any(mentions(value, list(around.outside)) for value in not_spatial):
            return False
        for tensor in self._others(part.writes, private):
            others = self._nest.all_of(tensor) != part.all_of(tensor)
            if others or part.reads[tensor] or part.writes[tensor] > 1:
                return False
        if any(self._nest.writes[tensor] != part.writes[tensor] for tensor in part.reads):
            return False
        used = [Accesses(one.realize.block) for one in blocks]
        if any(self._may_share_memory(one, private) for one in used):
            return False
        # TVM would allocate a tensor of one block inside its vectorized loop.
        if any(sum(one.all_of(tensor) > 0 for one in used) < _FEWEST for tensor in private):
            return False
        return all(sets_what_it_reads(tensor, private, blocks, around) for tensor in private)

    def _may_share_memory(self, used: Accesses, private: Sequence[Any]) -> bool:
        """Return whether TVM may put what a block writes where what it reads was."""
        sides = [self._others(one, private) for one in (used.reads, used.writes)]
        return all(any(holds(self._allocated, tensor) for tensor in one) for one in sides)

    @staticmethod
    def _others(tensors: Iterable[Any], private: Sequence[Any]) -> list[Any]:
        return [tensor for tensor in tensors if not holds(private, tensor)]


# -- Whether an iteration of loops sets all elements that it reads --------------------------------


@dataclass(frozen=True)
class _Covered:
    """The elements that a block accesses.

    Attributes
    ----------
    indices: one for each dimension.
    conditions: under which they are accessed.
    loops: around it, in an iteration.
    """

    indices: tuple[Linear, ...]
    conditions: tuple[Linear, ...]
    loops: tuple[Any, ...]


def sets_what_it_reads(
    tensor: Any, private: Sequence[Any], blocks: Sequence[Placed], around: Around
) -> bool:
    """Return whether what blocks read of a tensor was set before, in the same iteration.

    And no store covers a read only in part, or stores an element several times that depends on
    ``private`` tensors, of which it is one. ``blocks`` are in program order. Loops outside run
    nothing but spatial variables. What is unknown counts as not set.
    """
    made: list[_Covered] = []
    reads: list[_Covered] = []
    for placed in blocks:
        block = placed.realize.block
        if block.init is not None:
            for first in _stored(tensor, block.init, placed, around):
                if first is None:
                    return False
                made.append(_at_first(first, placed, around))
        for read in _loaded(tensor, placed, around):
            if read is None or not any(_covers(one, read, tensor, around) for one in made):
                return False
            reads.append(read)
        depends = any(holds(private, load.source) for load in found_in(block.body, TensorLoad))
        for stored in _stored(tensor, block.body, placed, around):
            if stored is None or (depends and not _is_once(stored, around)):
                return False
            made.append(stored)
    return all(
        _covers(_whatever_inside(one, around), read, tensor, around)
        for one in made
        for read in reads
    )


def _at_first(region: _Covered, placed: Placed, around: Around) -> _Covered:
    """Return what is stored under conditions on a reduction as its first step stores it."""
    reduced = [value for axis, value in bindings_of(placed.realize) if is_reduced(axis)]
    known = [linear_of(value, around.extents) for value in reduced]
    digits = {digit for one in known if one is not None for digit in one.terms}
    conditions = []
    for condition in region.conditions:
        terms = {digit: one for digit, one in condition.terms.items() if digit not in digits}
        if terms or condition.constant >= 0:
            conditions.append(Linear(terms, condition.constant))
    return replace(region, conditions=tuple(conditions))


def _whatever_inside(region: _Covered, around: Around) -> _Covered:
    """Return a region without the conditions that do not depend on loops outside."""
    kept = [one for one in region.conditions if around.split(one)[0].terms]
    return replace(region, conditions=tuple(kept))


def _is_once(region: _Covered, around: Around) -> bool:
    """Return whether each element is stored at most once in an iteration."""
    return all(Linear(inside.terms).covers() for _, inside in map(around.split, region.indices))


def _loaded(tensor: Any, placed: Placed, around: Around) -> Iterator[_Covered | None]:
    block = placed.realize.block
    for part in (block.init, block.body):
        for load in found_in(part, TensorLoad) if part is not None else ():
            if load.source.same_as(tensor):
                yield _region(load.indices, placed, around)


def _stored(tensor: Any, stmt: Any, placed: Placed, around: Around) -> Iterator[_Covered | None]:
    """Yield what a statement stores; None for what is unknown, or is not stored in any case."""
    always = [one for one in sequence_of(stmt) if isinstance(one, tirx.BufferStore)]
    for store in found_in(stmt, tirx.BufferStore):
        if store.buffer.same_as(tensor):
            yield _region(store.indices, placed, around) if holds(always, store) else None


def _region(indices: Sequence[Any], placed: Placed, around: Around) -> _Covered | None:
    realize = placed.realize
    values = {axis.var: value for axis, value in bindings_of(realize)}
    found = [linear_of(substituted(one, values), around.extents) for one in indices]
    conditions = [around.less(part) for part in conjuncts_of(realize.predicate)]
    if None in found or None in conditions:
        return None
    known = [one for one in found if one is not None]
    return _Covered(tuple(known), tuple(one for one in conditions if one is not None), placed.loops)


def _covers(made: _Covered, read: _Covered, tensor: Any, around: Around) -> bool:
    """Return whether what was made contains what is read.

    Of the loops around both, it was made in the same iteration.
    """
    shared = [loop.loop_var for loop in made.loops if holds(read.loops, loop)]
    around = Around(around.extents, [*around.outside, *shared])
    extents = [constant(extent) for extent in tensor.ty.shape]
    for condition in made.conditions:
        of_shape = any(
            extent is not None and index.plus(Linear({}, -extent)) == condition
            for index, extent in zip(made.indices, extents, strict=True)
        )
        if not of_shape and not any(_is_alike(condition, one, around) for one in read.conditions):
            return False
    inner = [around.split(index)[1] for index in made.indices]
    if not all(one.is_apart(other) for one, other in combinations(inner, 2)):
        return False
    for whole, part in zip(made.indices, read.indices, strict=True):
        (outer, wanted), (start, given) = around.split(part), around.split(whole)
        if outer.terms != start.terms or not given.is_contiguous or not given.has_digits_apart:
            return False
        if wanted.least < given.least or wanted.most > given.most:
            return False
    return True


def _is_alike(condition: Linear, other: Linear, around: Around) -> bool:
    """Return whether two conditions keep the same part of each tile."""
    (start, inside), (begin, within) = around.split(condition), around.split(other)
    ends = inside.constant == within.constant and inside.most == within.most
    dense = Linear(inside.terms).covers() and Linear(within.terms).covers()
    return start.terms == begin.terms and ends and dense
