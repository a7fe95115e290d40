"""Whether an iteration of loops sets all elements of a tensor that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from schedlang.tvm.last_tiles.around import Around
from schedlang.tvm.linear import Linear, linear_of
from schedlang.tvm.parts import Placed, bindings_of, conjuncts_of, is_reduced, sequence_of
from schedlang.tvm.values import constant, found_in, holds, substituted


@dataclass(frozen=True)
class _Region:
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
    made: list[_Region] = []
    reads: list[_Region] = []
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


def _at_first(region: _Region, placed: Placed, around: Around) -> _Region:
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


def _whatever_inside(region: _Region, around: Around) -> _Region:
    """Return a region without the conditions that do not depend on loops outside."""
    kept = [one for one in region.conditions if around.split(one)[0].terms]
    return replace(region, conditions=tuple(kept))


def _is_once(region: _Region, around: Around) -> bool:
    """Return whether each element is stored at most once in an iteration."""
    return all(Linear(inside.terms).covers() for _, inside in map(around.split, region.indices))


def _loaded(tensor: Any, placed: Placed, around: Around) -> Iterator[_Region | None]:
    block = placed.realize.block
    for part in (block.init, block.body):
        for load in found_in(part, TensorLoad) if part is not None else ():
            if load.source.same_as(tensor):
                yield _region(load.indices, placed, around)


def _stored(tensor: Any, stmt: Any, placed: Placed, around: Around) -> Iterator[_Region | None]:
    """Yield what a statement stores; None for what is unknown, or is not stored in any case."""
    always = [one for one in sequence_of(stmt) if isinstance(one, tirx.BufferStore)]
    for store in found_in(stmt, tirx.BufferStore):
        if store.buffer.same_as(tensor):
            yield _region(store.indices, placed, around) if holds(always, store) else None


def _region(indices: Sequence[Any], placed: Placed, around: Around) -> _Region | None:
    realize = placed.realize
    values = {axis.var: value for axis, value in bindings_of(realize)}
    found = [linear_of(substituted(one, values), around.extents) for one in indices]
    conditions = [around.less(part) for part in conjuncts_of(realize.predicate)]
    if None in found or None in conditions:
        return None
    known = [one for one in found if one is not None]
    return _Region(tuple(known), tuple(one for one in conditions if one is not None), placed.loops)


def _covers(made: _Region, read: _Region, tensor: Any, around: Around) -> bool:
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
