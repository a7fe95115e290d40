"""Arguments whose values decide neither where a program reads and writes nor whether it ends."""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.ir.expr import TensorLoad

from schedlang.tvm.data_flow.stores import Store, Stores
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import DIVISIONS, found_in, is_floating


def changeable(mod: IRModule) -> frozenset[int]:
    """Return the positions of arguments that may have any value without a crash.

    No index, no loop's length, no divisor of integers and no call that may write depends on them.
    """
    func = mod[MAIN]
    stores = Stores(func)
    critical = set().union(*map(stores.loaded, stores.lengths))
    for store in stores.stores:
        critical |= store.read
        for expression in _critical(stores, store):
            critical |= stores.loaded(expression)
    behind = set().union(*map(stores.behind, critical))
    return frozenset(
        position for position, parameter in enumerate(func.params) if parameter not in behind
    )


def _critical(stores: Stores, store: Store) -> list[Any]:
    """Return the indices and divisors in the expressions of a store."""
    found = list(store.indices)
    for expression in map(stores.resolved, store.expressions):
        found += [index for load in found_in(expression, TensorLoad) for index in load.indices]
        found += [it.b for it in found_in(expression, DIVISIONS) if not is_floating(it)]
    return found
