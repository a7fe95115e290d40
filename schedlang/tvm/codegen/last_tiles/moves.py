"""Whether what a block stores depends on where it is in all tiles, and not in its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx import BufferStore

from schedlang.tvm.codegen.last_tiles.coverage import Around
from schedlang.tvm.linear import Linear, linear_of
from schedlang.tvm.parts import bindings_of, conjuncts_of, is_spatial
from schedlang.tvm.values import constant, found_in, has_loads, holds, variables_in


def moves(realize: Any, place: Linear, around: Around) -> bool:
    """Return whether what a block stores follows from the elements, and these from a place.

    The place in all tiles, or in a tile of the block's own: the start of a tile alone.
    """
    block = realize.block
    axes = [axis.var for axis in block.iter_vars]
    for variable in variables_in(block):
        if not isinstance(variable.ty, tirx.BufferType) and not holds(axes, variable):
            return False
    moving, others = [], []
    for axis, value in bindings_of(realize):
        linear = linear_of(value, around.extents)
        if linear is None:
            return False
        times = linear.multiple_of(place)
        if times is None or (times and not is_spatial(axis)):
            return False
        rest = linear.plus(place, -times)
        others.append(rest)
        if times:
            moving.append((axis.var, rest))
    for part in conjuncts_of(realize.predicate):
        less = around.less(part)
        if less is None or less.multiple_of(place) is None:
            return False
    # A place in the tile is in one index alone.
    for _, rest in moving:
        for other in others:
            if other is not rest and not rest.is_apart(other):
                return False
    stores = found_in([one for one in (block.init, block.body) if one is not None], BufferStore)
    return all(_has_indices(store, [variable for variable, _ in moving]) for store in stores)


def _has_indices(store: Any, variables: Sequence[Any]) -> bool:
    """Return whether each variable is an index of a store, or one with a constant added."""
    if any(map(has_loads, store.indices)):
        return False
    plain = []
    for index in store.indices:
        is_sum = isinstance(index, tirx.Add | tirx.Sub) and constant(index.b) is not None
        plain.append(index.a if is_sum else index)
    return all(holds(plain, variable) for variable in variables)
