"""A network's ``main``: a straight-line Relax function, and changes of it before it is compiled.

The first part reads inputs, parameters and bindings, and builds new ones. The second part changes
what ``main`` returns, what it calls, and where its weights are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from threading import RLock
from typing import Any, Protocol, TypeAlias

import numpy as np
from tvm import relax, te
from tvm.ir import GenericConst, GlobalVar, IRModule, Op
from tvm.tirx import PrimFunc

from schedlang.errors import NetworkError
from schedlang.tvm.program import create_prim_func
from schedlang.tvm.values import dtype_of, found_in

# -- Inputs, parameters and bindings --------------------------------------------------------------

MAIN = "main"
NetworkProgram: TypeAlias = IRModule
"""A network as Relax holds it (an IRModule): ``main``, and the tensor functions that it calls."""
NUM_INPUT = "num_input"
"""The attribute of TVM's front ends: how many parameters of ``main`` the caller gives."""

BUILDING = RLock()
"""Held while a function is built: TVM keeps the open ones in a list for the whole process."""

VIEWS = VIEW, ZERO_OFFSET = "relax.memory.view", "relax.memory.ensure_zero_offset"
"""The operators of a view; the second one copies a view that functions cannot read in place."""


def with_inputs(mod: IRModule, count: int) -> IRModule:
    """Return a module that notes that the first ``count`` parameters of ``main`` are its inputs."""
    result = mod.clone()
    result.update_func(result.get_global_var(MAIN), result[MAIN].with_attr(NUM_INPUT, count))
    return result


def number_of_inputs(mod: IRModule) -> int:
    """Return how many parameters of ``main`` the caller gives; the others are weights."""
    function = mod[MAIN]
    given = function.attrs.get(NUM_INPUT, None) if function.attrs else None
    return len(function.params) if given is None else int(given)


def inputs_of(mod: IRModule) -> list[Any]:
    """Return the parameters of ``main`` that the caller gives."""
    return list(mod[MAIN].params[: number_of_inputs(mod)])


def weights_of(mod: IRModule) -> list[Any]:
    """Return the parameters of ``main`` after its inputs."""
    return list(mod[MAIN].params[number_of_inputs(mod) :])


def bindings(mod: IRModule) -> list[tuple[Any, Any]]:
    """Return the bindings of ``main`` in order: pairs of a variable and its value.

    Raises ``NetworkError`` for control flow, and where a type is cast at run time.
    """
    body = mod[MAIN].body
    if not isinstance(body, relax.SeqExpr):
        raise NetworkError("the Relax function main is not normalised; build it with BlockBuilder")
    found = []
    for block in body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                raise NetworkError(f"main casts {binding.var} at run time; shapes must be static")
            if isinstance(binding.value, relax.If | relax.Function):
                raise NetworkError(
                    f"main has control flow or an inner function at {binding.var}; import a "
                    "straight line of operators"
                )
            found.append((binding.var, binding.value))
    return found


def result(mod: IRModule) -> Any:
    """Return what ``main`` returns: a variable, or another expression."""
    return mod[MAIN].body.body


def operator(expr: Any) -> str:
    """Return the name of the operator that an expression calls, or ``""``."""
    if isinstance(expr, relax.Call) and isinstance(expr.op, Op):
        return str(expr.op.name)
    return ""


def tir_call(expr: Any) -> tuple[str, list[Any]] | None:
    """Return the tensor function that a binding calls, and its arguments; else None."""
    if operator(expr) not in ("relax.call_tir", "relax.call_tir_inplace"):
        return None
    callee, arguments = expr.args[0], expr.args[1]
    if not isinstance(callee, GlobalVar):
        return None
    return str(callee.name_hint), list(arguments.fields)


def tensor_type(kind: Any) -> tuple[tuple[int, ...], str]:
    """Return the static shape and the element type of a tensor's type.

    Raises ``NetworkError`` for another type, and for a shape that depends on the inputs.
    """
    if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
        raise NetworkError(f"expected a tensor of static shape in the network, not {kind}")
    try:
        return tuple(int(extent) for extent in kind.shape), str(kind.dtype)
    except TypeError:
        raise NetworkError(
            f"the network has the dynamic shape {kind.shape}; shapes must be static: import it "
            "once for each size that you need; sl.NetworkSet([network, other]) puts these together"
        ) from None


def shape_of(expr: Any) -> tuple[int, ...]:
    """Return the static shape of a tensor expression."""
    return tensor_type(expr.ty)[0]


def substituted(expr: Any, replacement: Callable[[Any], Any]) -> Any:
    """Return a value of a binding with every variable and constant replaced."""
    if isinstance(expr, relax.Var | GenericConst):
        return replacement(expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([substituted(field, replacement) for field in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(substituted(expr.tuple_value, replacement), expr.index)
    if isinstance(expr, relax.Call):
        return with_arguments(expr, [substituted(one, replacement) for one in expr.args])
    return expr


def with_arguments(call: Any, arguments: Sequence[Any]) -> Any:
    """Return the call of the same operator on other arguments."""
    return relax.Call(call.op, list(arguments), call.attrs, call.ty_args)


def used(expr: Any) -> list[Any]:
    """Return the variables and constants that a value of a binding reads, each as often as read."""
    return found_in(expr, (relax.Var, GenericConst))


def with_values(mod: IRModule, values: Mapping[Any, Any]) -> IRModule:
    """Return a module in which variables of ``main`` are bound to other values of the same type."""
    function = mod[MAIN]
    builder = relax.BlockBuilder(mod)
    blocks = [
        type(block)(
            [
                relax.VarBinding(one.var, builder.normalize(values[one.var]))
                if one.var in values
                else one
                for one in block.bindings
            ]
        )
        for block in function.body.blocks
    ]
    body = relax.SeqExpr(blocks, function.body.body)
    made = mod.clone()
    made.update_func(
        made.get_global_var(MAIN),
        relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs),
    )
    return made


# -- Changes of ``main`` --------------------------------------------------------------------------


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
