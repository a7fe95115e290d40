"""Which tensor functions a network calls, how often, and with which weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.ir import IRModule
from tvm.tirx.function import PrimFunc

from schedlang.tvm import program
from schedlang.tvm.data_flow.stores import Stores
from schedlang.tvm.packing import with_weights
from schedlang.tvm.relax.program import (
    MAIN,
    bindings,
    inputs_of,
    tensor_type,
    tir_call,
    weights_of,
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tensor function.

    Attributes
    ----------
    function: its name in the module.
    weights: positions of the arguments that are parameters of the network, known ahead.
    """

    function: str
    weights: tuple[int, ...]


def calls(mod: IRModule) -> list[Call]:
    """Return the calls of ``main`` in order."""
    weights = set(weights_of(mod))
    found = []
    for _, value in bindings(mod):
        called = tir_call(value)
        if called is not None:
            name, arguments = called
            positions = [place for place, item in enumerate(arguments) if item in weights]
            found.append(Call(name, tuple(positions)))
    return found


def with_weights_marked(mod: IRModule) -> IRModule:
    """Return a module whose tensor functions say which parameters are weights in every call.

    It is their attribute ``layout_free_buffers``: these tensors may be packed ahead of all calls.
    Functions in which no reduction reads weights have nothing to pack, and stay as they are.
    """
    weights: dict[str, set[int]] = {}
    for call in calls(mod):
        weights.setdefault(call.function, set(call.weights)).intersection_update(call.weights)
    functions = program.named_functions(mod)
    return program.replace_functions(
        mod,
        {
            name: with_weights(functions[name], positions)
            for name, positions in weights.items()
            if _reduces_any(functions[name], positions)
        },
    )


def _reduces_any(func: PrimFunc, positions: set[int]) -> bool:
    """Whether a reduction reads one of these parameters, or what is made of it."""
    if not positions:
        return False
    stores = Stores(func)
    read: set[Any] = set()
    for store in stores.stores:
        if store.blocks and store.blocks[-1].init is not None:
            read = read.union(*map(stores.behind, stores.read(store)))
    return any(func.params[position] in read for position in positions)


def signature(
    mod: IRModule,
) -> tuple[list[tuple[str, tuple[int, ...], str]], list[tuple[tuple[int, ...], str]]]:
    """Return name, shape and type of each input of ``main``, and shape and type of each output."""
    return (
        [(str(var.name), *tensor_type(var.ty)) for var in inputs_of(mod)],
        [tensor_type(kind) for kind in mod[MAIN].ret_ty.fields],
    )
