"""Whether what a block stores depends on where it is in all tiles, and not in its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx import BufferStore

from schedlang.tvm.codegen.last_tiles.around import Around
from schedlang.tvm.linear import Linear, linear_of
from schedlang.tvm.parts import bindings_of, conjuncts_of, is_spatial
from schedlang.tvm.values import constant, found_in, has_loads, holds, variables_in


def moves(realize: Any, place: Linear, around: Around) -> bool:
    """Return whether each element that a block stores is the same wherever its tile starts.

    ``place`` is the place in all tiles or, for what is stored in a tile alone, its start.
    """
    block = realize.block
    axes = [axis.var for axis in block.iter_vars]
    for variable in variables_in(block):
        if not isinstance(variable.ty, tirx.BufferType) and not holds(axes, variable):
            return False
    moving: list[tuple[Any, Linear]] = []
    indices: list[Linear] = []
    for axis, value in bindings_of(realize):
        linear = linear_of(value, around.extents)
        factor = None if linear is None else linear.factor_of(place)
        if linear is None or factor is None or (factor and not is_spatial(axis)):
            return False
        indices.append(linear)
        if factor:
            moving.append((axis.var, linear))
    # Where it is in the tile is in one index alone, and conditions are about indices.
    for _, index in moving:
        inside = index.without(place)
        if not all(one is index or inside.is_apart(one) for one in indices):
            return False
        for part in conjuncts_of(realize.predicate):
            less = around.less(part)
            if less is None or less.factor_of(index) is None:
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
