"""Arguments whose values decide neither where a program reads and writes nor whether it ends."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_walk

from schedlang.tvm.data_flow.rounding import is_floating
from schedlang.tvm.data_flow.stores import Store, Stores
from schedlang.tvm.program import MAIN

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


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

    def note_division(division: Any) -> None:
        if not is_floating(division):
            found.append(division.b)

    for expression in store.expressions:
        structural_walk(
            stores.resolved(expression),
            [
                (TensorLoad, lambda load: found.extend(load.indices)),
                (_DIVISIONS, note_division),
            ],
        )
    return found
