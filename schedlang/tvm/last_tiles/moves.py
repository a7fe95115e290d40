"""Whether what a block stores depends on the index alone, and not on where its tile starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx import BufferStore

from schedlang.tvm.last_tiles.around import Around
from schedlang.tvm.last_tiles.guards import Guard
from schedlang.tvm.linear import Linear, linear_of
from schedlang.tvm.parts import bindings_of, conjuncts_of
from schedlang.tvm.values import constant, found_in, has_loads, holds, variables_in


def moves(realize: Any, guard: Guard, around: Around, *, in_tile: bool) -> bool:
    """Return whether a stored element depends on its index alone, not on the tile's start.

    ``guard`` is that of the tile. With ``in_tile``, the block stores in tensors of the tile, and
    may have other guards.
    """
    block, place = realize.block, guard.start if in_tile else guard.whole
    axes = [axis.var for axis in block.iter_vars]
    for variable in variables_in(block):
        if not isinstance(variable.ty, tirx.BufferType) and not holds(axes, variable):
            return False
    moving: list[tuple[Any, Linear]] = []
    indices: list[Linear] = []
    for axis, value in bindings_of(realize):
        linear = linear_of(value, around.extents)
        factor = None if linear is None else linear.factor_of(place)
        if linear is None or factor is None:
            return False
        inside = linear.without(place)
        # Between tiles of tensors of a tile, nothing is left that was not computed before.
        if in_tile and inside.most - inside.least + 1 < abs(factor) * guard.size:
            return False
        indices.append(linear)
        if factor:
            moving.append((axis.var, linear))
    # Where it is in the tile is in one index alone.
    for _, index in moving:
        inside = index.without(place)
        if not all(one is index or inside.is_apart(one) for one in indices):
            return False
    # Conditions are about the indices that move, or about what does not.
    for part in conjuncts_of(realize.predicate):
        less = around.less(part)
        factor = None if less is None else less.factor_of(place)
        if less is None or factor is None or (factor and not moving):
            return False
        if any(less.factor_of(index) is None for _, index in moving):
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
