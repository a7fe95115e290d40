"""Orders of the axes of a tensor, and the tensors of a network in several of them.

``order[place]`` is the axis of the network's own tensor that stands at ``place`` of a copy: the
copy is ``permute_dims(tensor, order)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from schedlang.tvm.relax.program import shape_of

Order = tuple[int, ...]


def identity(rank: int) -> Order:
    """Return the order of the tensor itself."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """``4 -> (0, 2, 3, 1)``: the axis after the batch becomes the last one."""
    return (0, *range(2, rank), 1)


def reordered(values: Sequence[int], order: Order) -> tuple[int, ...]:
    """Return what belongs to the axes of a tensor, such as its shape, in an order."""
    return tuple(values[axis] for axis in order)


def between(before: Order, after: Order) -> Order:
    """Return the axes of ``permute_dims`` that turn a copy in one order into another."""
    return tuple(before.index(axis) for axis in after)


def moves_data(shape: Sequence[int], axes: Order) -> bool:
    """Tell whether ``permute_dims`` with these axes moves elements; if not, it is a reshape."""
    kept = [axis for axis in axes if shape[axis] != 1]
    return kept != sorted(kept)


def of_transposed(order: Order, axes: Order) -> Order:
    """Return the order that a copy of ``x`` has as a copy of ``permute_dims(x, axes)``."""
    return tuple(axes.index(axis) for axis in order)


def of_reshaped(order: Order, before: Sequence[int], after: Sequence[int]) -> tuple[Order, Order]:
    """Return in which order a copy of ``x`` becomes one of ``reshape(x, after)`` by a reshape.

    A reshape splits and merges axes that stand side by side; in the copy, those of each group must
    stand side by side too, in the same order. ``before`` is the shape of ``x``. Returns the order
    nearest to ``order`` in which they do, and the order that the result then has.
    """
    groups, rest = _groups(before, after)
    needed: list[int] = []
    found: list[int] = []
    for axis in order:
        if axis not in needed:
            old, new = next(group for group in groups if axis in group[0])
            needed += old
            found += new
    return tuple(needed), tuple(found + rest)


def _groups(
    before: Sequence[int], after: Sequence[int]
) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
    """Pair the fewest axes of two shapes that have one product, from the first axis on.

    The second result are the axes of ``after`` that are left; their extents are 1.
    """
    if 0 in before:
        return [(list(identity(len(before))), list(identity(len(after))))], []
    groups = []
    one = other = 0
    while one < len(before):
        old, new = [one], []
        size, made = before[one], 1
        one += 1
        while size != made:
            if made < size:
                new.append(other)
                made *= after[other]
                other += 1
            else:
                old.append(one)
                size *= before[one]
                one += 1
        if not new and other < len(after) and after[other] == 1:
            new.append(other)
            other += 1
        groups.append((old, new))
    return groups, list(range(other, len(after)))


class Copies:
    """What the new function has computed of each tensor of the old one.

    A copy in another order is made when something reads it, once.
    """

    def __init__(self, builder: Any) -> None:
        """``builder`` emits the bindings of the new function."""
        self._builder = builder
        self._made: dict[Any, dict[Order, Any]] = {}

    def add(self, item: Any, order: Order, value: Any) -> None:
        """Note that ``value`` is a copy of ``item`` in an order."""
        self._made.setdefault(item, {}).setdefault(order, value)

    def share(self, item: Any, other: Any) -> bool:
        """Note that two items are one tensor; False if nothing is known of the other one."""
        if other not in self._made:
            return False
        self._made[item] = self._made[other]
        return True

    def orders(self, item: Any) -> list[Order]:
        """Return the orders other than its own in which there are copies of ``item``."""
        return [order for order in self._made.get(item, {}) if order != identity(len(order))]

    def there(self, item: Any, order: Order) -> bool:
        """Tell whether there is a copy in this order already."""
        return order in self._made.get(item, {})

    def get(self, item: Any, order: Order | None = None) -> Any:
        """Return ``item`` in an order, its own by default."""
        made = self._made[item]
        if order is None:
            order = identity(len(next(iter(made))))
        if order not in made:
            first, value = next(iter(made.items()))
            made[order] = self._builder.emit(transposed(value, between(first, order)))
        return made[order]


def transposed(value: Any, axes: Order) -> Any:
    """Return ``permute_dims``; a reshape, which costs nothing, where no element moves."""
    shape = shape_of(value)
    if moves_data(shape, axes):
        return relax.op.permute_dims(value, axes)
    return relax.op.reshape(value, reordered(shape, axes))
