"""Which tensor functions a network calls, how often, with which weights, and by which names.

And calls of other functions in their place: with weights packed ahead, or of twins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GlobalVar, IRModule
from tvm.tirx import PrimFunc

from schedlang.tvm import program
from schedlang.tvm.analysis.flow import Stores
from schedlang.tvm.codegen.compiler import compile_for_host
from schedlang.tvm.codegen.runtime import aligned_array
from schedlang.tvm.packing import SplitFunction, with_weights
from schedlang.tvm.relax.integer_checks import names_of_checks
from schedlang.tvm.relax.network_program import (
    MAIN,
    bindings,
    callee_of_type,
    inputs_of,
    named_weights,
    shape_of,
    tensor_type,
    tir_call,
    weights_of,
    with_arguments,
    with_callees,
    with_changed_calls,
    with_opaque_functions,
    with_values,
)


@dataclass(frozen=True, slots=True)
class NetworkCall:
    """One call of a tensor function.

    Attributes
    ----------
    function: its name in the module.
    weights: positions of the arguments that are parameters of the network, known ahead.
    """

    function: str
    weights: tuple[int, ...]


def calls(mod: IRModule) -> list[NetworkCall]:
    """Return the calls of ``main`` in order, without checks, which nobody schedules."""
    weights = set(weights_of(mod))
    checks = names_of_checks(mod)
    found = []
    for _, value in bindings(mod):
        name, arguments = tir_call(value) or ("", [])
        if name and name not in checks:
            positions = [place for place, item in enumerate(arguments) if item in weights]
            found.append(NetworkCall(name, tuple(positions)))
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


# -- Calls of other functions in a network's place: packed weights, twins -------------------------
#
# What depends on weights only is computed when a network is compiled. Functions that compute the
# same of tensors with more or fewer axes of extent 1 are one for all.


def with_packed_weights(
    mod: IRModule, parameters: Mapping[str, np.ndarray], split: Mapping[str, SplitFunction]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a network whose calls of these functions take packed weights, and its parameters.

    ``split`` has the parts of functions by name. Each call gets the weights that it had, packed;
    parameters that nothing reads any more are dropped.
    """
    if not split:
        return mod, dict(parameters)
    mod, callees = with_opaque_functions(mod, {name: one.main for name, one in split.items()})
    return with_changed_calls(mod, _PackedCalls(named_weights(mod, parameters), split, callees))


class _PackedCalls:
    """The weights of a network, name and value by variable, with those that were packed."""

    def __init__(
        self,
        values: dict[Any, tuple[str, np.ndarray]],
        split: Mapping[str, SplitFunction],
        callees: Mapping[str, GlobalVar],
    ) -> None:
        self.values = values
        self._split = split
        self._callees = callees
        self._code: dict[tuple[str, int], Any] = {}
        self._made: dict[Any, Any] = {}

    def changed(self, value: Any) -> Any:
        """Return a value of a binding; of a call of a split function, one with packed weights."""
        name, arguments = tir_call(value) or ("", [])
        if name not in self._split:
            return value
        split = self._split[name]
        taken = [
            arguments[source] if source < split.count else self._packed(name, source, arguments)
            for source in split.sources
            if not len(arguments) <= source < split.count  # it is written
        ]
        return with_arguments(value, [self._callees[name], relax.Tuple(taken)])

    def _packed(self, name: str, source: int, arguments: list[Any]) -> Any:
        """The variable of a packed weight, computed once for the same weights."""
        place = source - self._split[name].count
        packing = self._split[name].packings[place]
        weights = [arguments[position] for position in packing.weights]
        key = (name, place, *weights)
        if key not in self._made:
            if (name, place) not in self._code:
                self._code[name, place] = compile_for_host(program.as_main(packing.function))
            array = aligned_array(packing.shape, packing.dtype)
            self._code[name, place](*(self.values[var][1] for var in weights), array)
            first = self.values[weights[0]][0]
            var = relax.Var("packed", relax.TensorType(packing.shape, packing.dtype))
            self.values[var] = (f"{first} (packed for {name}, {place})", array)
            self._made[key] = var
        return self._made[key]


@dataclass(frozen=True)
class Twin:
    """A function that can be called in place of another one.

    Attributes
    ----------
    name: of this function.
    order: for each parameter of the other one its position among this one's; the last one of both
        is the output, and the only one.
    shapes: of this function's parameters.
    """

    name: str
    order: Sequence[int]
    shapes: Sequence[tuple[int, ...]]


def with_twins(
    mod: IRModule, parameters: Mapping[str, np.ndarray], twins: Mapping[str, Twin]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a network that calls twins in place of these functions, and its parameters.

    Tensors are reshaped before and after, which costs nothing when the network is compiled.
    """
    if not twins:
        return mod, dict(parameters)
    return with_changed_calls(mod, _TwinCalls(mod, named_weights(mod, parameters), twins))


class _TwinCalls:
    """The calls of a network that are changed; see ``CallChange``."""

    def __init__(
        self,
        mod: IRModule,
        values: dict[Any, tuple[str, np.ndarray]],
        twins: Mapping[str, Twin],
    ) -> None:
        self.values = values
        self._mod = mod
        self._twins = twins
        self._made: dict[Any, Any] = {}

    def changed(self, value: Any) -> Any:
        name, arguments = tir_call(value) or ("", [])
        if name not in self._twins:
            return value
        twin = self._twins[name]
        taken: dict[int, Any] = {
            place: self._shaped(argument, twin.shapes[place])
            for argument, place in zip(arguments, twin.order[:-1], strict=True)
        }
        wanted = value.ty_args[0]
        output = relax.TensorType(twin.shapes[-1], wanted.dtype)
        callee = self._mod.get_global_var(twin.name)
        call = relax.call_tir(callee, [taken[place] for place in sorted(taken)], output)
        shape = tuple(int(extent) for extent in wanted.shape)
        return call if shape == tuple(twin.shapes[-1]) else relax.op.reshape(call, shape)

    def _shaped(self, argument: Any, shape: tuple[int, ...]) -> Any:
        if shape_of(argument) == tuple(shape):
            return argument
        if argument not in self.values:
            return relax.op.reshape(argument, shape)
        key = (argument, tuple(shape))
        if key not in self._made:
            name, array = self.values[argument]
            var = relax.Var("reshaped", relax.TensorType(shape, str(array.dtype)))
            self.values[var] = (f"{name} {list(shape)}", array.reshape(shape))
            self._made[key] = var
        return self._made[key]
