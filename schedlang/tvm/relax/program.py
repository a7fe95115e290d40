"""Straight-line Relax functions: their inputs, parameters and bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, TypeAlias

from tvm import relax
from tvm.ir import GenericConst, GlobalVar, IRModule, Op

from schedlang.errors import NetworkError
from schedlang.tvm.values import found_in

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
