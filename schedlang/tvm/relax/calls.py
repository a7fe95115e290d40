"""Which tensor functions a network calls, how often, with which weights, and by which names."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tvm.ir import GlobalVar, IRModule
from tvm.tirx import PrimFunc

from schedlang.tvm import program
from schedlang.tvm.data_flow.stores import Stores
from schedlang.tvm.packing import with_weights
from schedlang.tvm.relax.checks.function import names_of_checks
from schedlang.tvm.relax.program import (
    MAIN,
    bindings,
    inputs_of,
    tensor_type,
    tir_call,
    weights_of,
    with_arguments,
    with_values,
)
from schedlang.tvm.relax.rewriting import callee_of_type, with_callees


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
    """Return the calls of ``main`` in order, without checks, which nobody schedules."""
    weights = set(weights_of(mod))
    checks = names_of_checks(mod)
    found = []
    for _, value in bindings(mod):
        name, arguments = tir_call(value) or ("", [])
        if name and name not in checks:
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


LONGEST = 40
"""Most characters of a function's name."""
# Characters that are left for a number.
_NUMBER = 3


def with_short_names(mod: IRModule) -> IRModule:
    """Return a network whose tensor functions have names of at most 40 characters.

    TVM joins the names of all operators that it fuses: those of a step of a recurrent network have
    150 characters.
    """
    taken = {var.name_hint for var in mod.functions if len(var.name_hint) <= LONGEST}
    callees: dict[str, GlobalVar] = {}
    for name in program.named_functions(mod):
        if len(name) > LONGEST:
            short = short_name(name, taken)
            taken.add(short)
            callees[name] = callee_of_type(short, mod.get_global_var(name).ty)
    if not callees:
        return mod
    changed = {}
    for var, value in bindings(mod):
        name, _ = tir_call(value) or ("", [])
        if name in callees:
            changed[var] = with_arguments(value, [callees[name], *value.args[1:]])
    return with_values(with_callees(mod, callees, {}), changed)


def short_name(name: str, taken: Collection[str] = ()) -> str:
    """Return the first operators of a long name and its last one, with a number if it is taken.

    ::

        fused_conv2d3_add1_tir_sigmoid_multiply_add1_relu_max_pool2d
        ->  fused_conv2d_add_sigmoid_to_pool2d
    """
    plain = re.sub(r"(?<=[a-z])\d+(?=_|$)", "", name.replace("_tir_", "_"))
    first, *words = plain.split("_")
    short = first[: LONGEST // 2]
    ending = f"_to_{words.pop()[: LONGEST * 3 // 10]}" if words else ""
    for word in words:
        if len(short) + 1 + len(word) + len(ending) > LONGEST - _NUMBER:
            break
        short += f"_{word}"
    return numbered(short + ending, taken)


def numbered(name: str, taken: Collection[str], before: str = "") -> str:
    """Return a name, with a number from 2 on if it is taken, and ``before`` between both."""
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name}{before}{number}"
    return chosen
