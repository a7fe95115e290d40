"""Whether an iteration of loops sets all elements of a tensor that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from schedlang.tvm.linear import Linear, linear_of
from schedlang.tvm.parts import bindings_of, conjuncts_of, is_reduced, sequence_of
from schedlang.tvm.values import constant, found_in, holds, substituted, variables_in


@dataclass(frozen=True)
class Around:
    """What is known of the loops around a block.

    Attributes
    ----------
    extents: of the loops' variables, which begin with 0.
    outside: the variables of the loops of which an iteration is meant.
    """

    extents: Mapping[Any, int]
    outside: Sequence[Any]

    def split(self, linear: Linear) -> tuple[Linear, Linear]:
        """Return the terms of loops outside, and the others with the constant."""
        outer = {
            digit: factor
            for digit, factor in linear.terms.items()
            if any(digit.variable.same_as(one) for one in self.outside)
        }
        inner = {digit: factor for digit, factor in linear.terms.items() if digit not in outer}
        return Linear(outer), Linear(inner, linear.constant)

    def less(self, condition: Any) -> Linear | None:
        """Return what is less than 0 if a condition holds; None for other conditions."""
        if not isinstance(condition, tirx.LT):
            return None
        left, right = (linear_of(side, self.extents) for side in (condition.a, condition.b))
        return None if left is None or right is None else left.plus(right, -1)


@dataclass(frozen=True)
class Placed:
    """A realized block, and the variables of the loops around it inside an iteration."""

    realize: Any
    inside: tuple[Any, ...]


@dataclass(frozen=True)
class _Region:
    """The elements that a block accesses.

    Attributes
    ----------
    indices: one for each dimension.
    conditions: under which they are accessed.
    inside: variables of the loops around it.
    """

    indices: tuple[Linear, ...]
    conditions: tuple[Linear, ...]
    inside: tuple[Any, ...]


def sets_what_it_reads(tensor: Any, blocks: Sequence[Placed], around: Around) -> bool:
    """Return whether each element that blocks read was set before, in the same iteration.

    ``blocks`` are in program order. Loops outside run no reduction. What is unknown counts as not
    set.
    """
    made: list[_Region] = []
    for placed in blocks:
        block = placed.realize.block
        if block.init is not None:
            made.extend(
                _at_first(one, placed) for one in _stored(tensor, block.init, placed, around)
            )
        for read in _loaded(tensor, placed, around):
            if read is None or not any(_covers(one, read, tensor, around) for one in made):
                return False
        made.extend(_stored(tensor, block.body, placed, around))
    return True


def _at_first(region: _Region, placed: Placed) -> _Region:
    """Return what is stored under conditions on a reduction as its first step stores it."""
    reduced = [value for axis, value in bindings_of(placed.realize) if is_reduced(axis)]
    variables = [one for value in reduced for one in variables_in(value)]
    conditions = []
    for condition in region.conditions:
        terms = {d: f for d, f in condition.terms.items() if not holds(variables, d.variable)}
        if terms or condition.constant >= 0:
            conditions.append(Linear(terms, condition.constant))
    return _Region(region.indices, tuple(conditions), region.inside)


def _loaded(tensor: Any, placed: Placed, around: Around) -> Iterator[_Region | None]:
    block = placed.realize.block
    for part in (block.init, block.body):
        for load in found_in(part, TensorLoad) if part is not None else ():
            if load.source.same_as(tensor):
                yield _region(load.indices, placed, around)


def _stored(tensor: Any, stmt: Any, placed: Placed, around: Around) -> Iterator[_Region]:
    """Yield what is known that a statement stores in any case."""
    for store in sequence_of(stmt):
        if isinstance(store, tirx.BufferStore) and store.buffer.same_as(tensor):
            region = _region(store.indices, placed, around)
            if region is not None:
                yield region


def _region(indices: Sequence[Any], placed: Placed, around: Around) -> _Region | None:
    realize = placed.realize
    values = {axis.var: value for axis, value in bindings_of(realize)}
    found = [linear_of(substituted(one, values), around.extents) for one in indices]
    conditions = [around.less(part) for part in conjuncts_of(realize.predicate)]
    if None in found or None in conditions:
        return None
    known = [one for one in found if one is not None]
    return _Region(tuple(known), tuple(one for one in conditions if one is not None), placed.inside)


def _covers(made: _Region, read: _Region, tensor: Any, around: Around) -> bool:
    """Return whether what was made contains what is read.

    Of the loops around both, it was made in the same iteration.
    """
    shared = [one for one in made.inside if holds(read.inside, one)]
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
    """Return whether a condition holds wherever the other does."""
    (start, inside), (begin, within) = around.split(condition), around.split(other)
    ends = inside.constant == within.constant and inside.most == within.most
    dense = Linear(inside.terms).covers() and Linear(within.terms).covers()
    return start.terms == begin.terms and ends and dense
