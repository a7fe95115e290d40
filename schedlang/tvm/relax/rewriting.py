"""Changes of ``main`` before a network is compiled: what it returns, and where its weights are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from tvm import relax, te
from tvm.ir import GlobalVar, IRModule
from tvm.tirx import PrimFunc

from schedlang.tvm.program import create_prim_func
from schedlang.tvm.relax.program import (
    BUILDING,
    MAIN,
    VIEWS,
    bindings,
    inputs_of,
    operator,
    result,
    shape_of,
    substituted,
    used,
    weights_of,
    with_inputs,
)
from schedlang.tvm.values import dtype_of


def rewrite_main(
    mod: IRModule,
    parameters: Sequence[Any],
    weights: Mapping[Any, Any],
    change: Callable[[Any], Any] = lambda value: value,
    copied: Sequence[int] = (),
) -> IRModule:
    """Return a module whose ``main`` takes its inputs and then ``parameters``, and returns a tuple.

    Parameters
    ----------
    weights: an expression for each parameter of the old ``main`` that is used.
    change: gets each value of a binding, with the new weights; returns what to take.
    copied: positions of outputs to be copied.
    """
    made: dict[Any, Any] = dict(weights)

    def current(item: Any) -> Any:
        return made.get(item, item)

    def write(builder: Any) -> Any:
        for var, value in bindings(mod):
            made[var] = builder.emit(change(substituted(value, current)))
        outputs = [substituted(field, current) for field in fields(mod)]
        for place in copied:
            source = builder.emit(outputs[place])
            copy = builder.add_func(_copy(source), "copy_output")
            outputs[place] = builder.emit(relax.call_tir(copy, (source,), source.ty))
        return relax.Tuple(outputs)

    return with_main(mod, parameters, write)


def with_main(mod: IRModule, parameters: Sequence[Any], write: Callable[[Any], Any]) -> IRModule:
    """Return a module whose ``main`` takes its inputs and then ``parameters``, and is new.

    ``write`` gets the block builder, emits the bindings and returns what ``main`` returns.
    """
    inputs = inputs_of(mod)
    builder = relax.BlockBuilder(mod)
    with BUILDING, builder.function("rewritten", [*inputs, *parameters]):
        with builder.dataflow():
            output = builder.emit_output(write(builder))
        builder.emit_func_output(output)
    final = builder.get()
    function = final["rewritten"].with_attr("global_symbol", MAIN)
    del final[final.get_global_var("rewritten")]
    final.update_func(final.get_global_var(MAIN), function)
    return with_inputs(final, len(inputs))


class CallChange(Protocol):
    """A change of calls that may make new weights.

    Attributes
    ----------
    values: name and value of each weight, by its variable; ``changed`` adds new ones.
    """

    values: dict[Any, tuple[str, np.ndarray]]

    def changed(self, value: Any) -> Any:
        """Return a value of a binding, changed or not; the same each time that it is asked."""


def with_changed_calls(mod: IRModule, change: CallChange) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a network with changed calls and its parameters: the weights that are still read."""
    read = set(used(result(mod)))
    for _, value in bindings(mod):
        read.update(used(change.changed(value)))
    left = [var for var in change.values if var in read]
    mod = rewrite_main(mod, left, {}, change.changed)
    return mod, dict(change.values[var] for var in left)


def named_weights(
    mod: IRModule, parameters: Mapping[str, np.ndarray]
) -> dict[Any, tuple[str, np.ndarray]]:
    """Return name and value of each weight, by its variable."""
    return dict(zip(weights_of(mod), parameters.items(), strict=True))


def with_opaque_functions(
    mod: IRModule, functions: Mapping[str, PrimFunc]
) -> tuple[IRModule, dict[str, GlobalVar]]:
    """Replace functions by others with other parameters; return the variables to call them by.

    A variable has the types of its function's parameters; those of the new ones take any. Two
    functions that are equal now stay two.
    """
    opaque = relax.FuncType.opaque_func()
    callees = {name: callee_of_type(name, opaque) for name in functions}
    return with_callees(mod, callees, functions), callees


def callee_of_type(name: str, kind: Any) -> GlobalVar:
    """Return a new variable to call a function by."""
    callee = GlobalVar(name)
    relax.expr._update_type(callee, kind)
    return callee


def with_callees(
    mod: IRModule, callees: Mapping[str, GlobalVar], functions: Mapping[str, PrimFunc]
) -> IRModule:
    """Return a module in which these variables stand for the functions of these names.

    ``functions`` are taken in place of the functions of these names. The calls are as they were.
    """
    replaced = {
        callees.get(var.name_hint, var): functions.get(var.name_hint, func)
        for var, func in mod.functions.items()
    }
    return IRModule(replaced, attrs=mod.attrs)


def shared_outputs(mod: IRModule) -> tuple[int, ...]:
    """Return the positions of outputs that share memory with an input, a weight or another output.

    The caller may write an output, and nothing else may change with it.
    """
    values = dict(bindings(mod))
    known: set[Hashable] = {None, *mod[MAIN].params}
    found = []
    for place, field in enumerate(fields(mod)):
        origin = _origin(field, values)
        if origin in known:
            found.append(place)
        known.add(origin)
    return tuple(found)


def _origin(item: Any, values: Mapping[Any, Any]) -> Hashable:
    """The variable whose memory a tensor lies in, with its place in a tuple; constants are None."""
    while True:
        value: Any = values.get(item) if isinstance(item, relax.Var) else item
        if isinstance(value, relax.Var):
            item = value
        elif operator(value) in (*VIEWS, "relax.reshape"):
            item = value.args[0]
        elif isinstance(value, relax.TupleGetItem):
            whole = values.get(value.tuple_value, value.tuple_value)
            if not isinstance(whole, relax.Tuple):
                return (value.tuple_value, int(value.index))
            item = whole.fields[int(value.index)]
        else:
            return item if isinstance(item, relax.Var) else None


def fields(mod: IRModule) -> list[Any]:
    """Return the tensors that ``main`` returns."""
    values = dict(bindings(mod))
    returned = result(mod)
    while isinstance(values.get(returned), relax.Var | relax.Tuple):
        returned = values[returned]
    if isinstance(returned, relax.Tuple):
        return list(returned.fields)
    if not isinstance(returned.ty, relax.TupleType):
        return [returned]
    return [relax.TupleGetItem(returned, place) for place in range(len(returned.ty.fields))]


def _copy(tensor: Any) -> PrimFunc:
    source = te.placeholder(shape_of(tensor), dtype_of(tensor), "source")
    made = te.compute(source.shape, lambda *place: source(*place), "copy")
    return create_prim_func([source, made]).without_attr("global_symbol")
