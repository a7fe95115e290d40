"""The tensors of a network while it is rewritten, each in one or several orders of its axes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from schedlang.tvm.relax.layout.orders import (
    Order,
    between,
    identity,
    moves_data,
    reordered,
)
from schedlang.tvm.relax.program import shape_of


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
