"""Front ends: networks of users as Relax modules, from ``torch.export``, ONNX or Relax itself.

torch is imported when one of its graphs is converted, onnx when one of its models is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GlobalVar, IRModule

from schedlang.errors import NetworkError, UnsupportedOperatorError
from schedlang.printed import first_line
from schedlang.tvm.relax.network_program import (
    BUILDING,
    MAIN,
    bindings,
    number_of_inputs,
    shape_of,
    tensor_type,
    with_inputs,
)
from schedlang.tvm.relax.torch_arguments import Converter, cast, expected_type
from schedlang.tvm.relax.torch_arithmetic import ARITHMETIC, ELEMENTWISE, SHIFTS
from schedlang.tvm.relax.torch_indexing import IMAGES, INDEXING
from schedlang.tvm.relax.torch_reductions import NORMALISATION, REDUCTIONS
from schedlang.tvm.values import dtype_of, is_integer

# -- An ``ExportedProgram`` of torch as a Relax module, operator by operator ----------------------
#
# Converters of our own replace those of TVM's front end that convert wrongly, imprecisely or not at
# all. TVM 0.27 computes products of float64 in float32, ignores ``alpha`` of ``add`` and ``sub``
# and the scales of ``elu``, casts the scalar of ``integers * 0.5`` to an integer, does not drop
# values in training, reads foreign memory at negative indices and where several tensors index
# different axes, loses NaN in divisions that round, rounds the places of nearest neighbours, and
# reads the arguments of ``batch_norm`` at the places of another operator.

OPERATORS: dict[str, Converter] = {
    **ARITHMETIC,
    **IMAGES,
    **ELEMENTWISE,
    **INDEXING,
    **NORMALISATION,
    **REDUCTIONS,
    **SHIFTS,
}
"""Our converters by the name of the operator's overload; they replace TVM's of these names."""


class FailedOperator(Exception):
    """The conversion of one node of a graph failed; ``node`` is the node, the cause the reason."""

    def __init__(self, node: Any) -> None:
        self.node = node
        super().__init__(str(node))


def operator_name(node: Any) -> str:
    """Return the operator that a node calls, as torch writes it: ``"aten.conv2d.default"``."""
    return str(node.target)


def place_of(node: Any) -> str:
    """Return where a node stands in the model: the path of its module, and the line of code."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, kind = (str(part) for part in stack[-1]) if stack else ("", "")
    path = path.removeprefix("L['self']").lstrip(".")
    shown = f"module {path!r}" if path else "the model itself"
    if kind:
        shown += f" ({kind.rsplit('.', 1)[-1].strip(chr(39) + '>')})"
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [number for number, line in enumerate(lines) if line.startswith("File ")]
    if frames:
        frame = lines[frames[-1]].removeprefix("File ").replace('"', "").split(", ")
        code = lines[frames[-1] + 1] if frames[-1] + 1 < len(lines) else ""
        shown += f", {frame[0]}:{frame[1].removeprefix('line ')}: {code}"
    return shown


def unsupported(graph: Any) -> dict[str, list[str]]:
    """Return the operators of a graph that have no converter, each with its places."""
    converters = _converters(_importer())
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target.__name__ not in converters:
            found.setdefault(operator_name(node), []).append(place_of(node))
    return found


def refusal(operators: Mapping[str, Sequence[str]], reason: str = "") -> UnsupportedOperatorError:
    """Return the error that names operators and their places; at most three places of each."""
    lines = []
    for name, places in operators.items():
        shown = [f"    in {place}" for place in places[:3]]
        if len(places) > 3:
            shown.append(f"    and in {len(places) - 3} more places")
        lines.append("\n".join([f"  {name}{reason and f': {reason}'}", *shown]))
    return UnsupportedOperatorError(
        "operators that TVM cannot import:\n"
        + "\n".join(lines)
        + "\nreplace them in the model by operators that it can, or import the parts around them",
        {name: list(places) for name, places in operators.items()},
    )


def graph_to_relax(
    graph: Any,
    inputs: Mapping[str, tuple[tuple[int, ...], str]],
    values: Mapping[str, tuple[str, np.ndarray]],
    outputs: Sequence[Any],
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Convert the graph of an ``ExportedProgram``.

    Parameters
    ----------
    graph: its nodes; all parameters are placeholders.
    inputs: shape and element type of each placeholder that the caller gives.
    values: name and value of each placeholder that is a parameter, a buffer or a constant.
    outputs: the nodes to return, in order.

    Returns a module whose ``main`` takes the inputs and then the parameters, and returns a tuple;
    and the values of the parameters by their names. Placeholders that are neither input nor value
    must be unused. Raises ``FailedOperator`` for a node that cannot be converted.
    """
    importer = _importer()
    converters = _converters(importer)
    builder = importer.block_builder = relax.BlockBuilder()
    variables: dict[str, Any] = {}
    for name, (shape, dtype) in inputs.items():
        variables[name] = relax.Var(name, relax.TensorType(shape, dtype))
    parameters: dict[str, np.ndarray] = {}
    shared: dict[str, Any] = {}
    for placeholder, (name, value) in values.items():
        if name not in shared:
            kind = relax.TensorType(value.shape, str(value.dtype))
            shared[name] = relax.Var(name, kind)
            parameters[name] = value
        variables[placeholder] = shared[name]
    signature = [*(variables[name] for name in inputs), *shared.values()]
    failure: tuple[Any, Exception] | None = None
    with BUILDING, builder.function(MAIN, signature):
        with builder.dataflow():
            for node in graph.nodes:
                if node.op == "placeholder" and node.name in variables:
                    importer.env[node] = variables[node.name]
                elif node.op == "call_function":
                    try:
                        made = converters[node.target.__name__](importer, node)
                        importer.env[node] = _checked(importer, node, made)
                    except Exception as error:  # converters raise errors of every type
                        failure = (node, error)
                        break
            returned = [] if failure else [importer.env[node] for node in outputs]
            result = builder.emit_output(relax.Tuple(returned))
        builder.emit_func_output(result)
    if failure:
        raise FailedOperator(failure[0]) from failure[1]
    return with_inputs(builder.get(), len(inputs)), parameters


def _checked(importer: Any, node: Any, made: Any) -> Any:
    """What a converter made, in the shape and the type that torch gives to the result."""
    expected = expected_type(node)
    if expected is None or not isinstance(getattr(made, "ty", None), relax.TensorType):
        return made
    shape, dtype = expected
    if shape_of(made) != shape:
        raise ValueError(f"TVM gives it the shape {shape_of(made)}, torch {shape}")
    if dtype_of(made) != dtype and not (is_integer(made) and is_integer(dtype)):
        raise ValueError(f"TVM computes it as {dtype_of(made)}, torch as {dtype}")
    return cast(importer, made, dtype)


def _importer() -> Any:
    # The front end imports torch, which is optional.
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    return ExportedProgramImporter()


def _converters(importer: Any) -> dict[str, Converter]:
    """Every operator that can be converted: those of TVM's front end, and ours in their place."""

    def ignoring_importer(convert: Callable[[Any], Any]) -> Converter:
        return lambda _, node: convert(node)

    known = {name: ignoring_importer(convert) for name, convert in importer.convert_map.items()}
    return {**known, **OPERATORS}


# -- What torch demands of values in operators that it decomposes ---------------------------------
#
# ``index_add`` refuses negative indices, and ``index_put``, which it becomes, does not;
# ``binary_cross_entropy`` becomes logarithms, which take any number. So their decompositions begin
# with a call of an operator of our own that states the demand; its converter checks it in each
# call.

Within = Callable[[Any, float, float, str], Any]
Demand = Callable[[dict[str, Any], Within], None]
"""Changes the arguments of a call, by name, to ones whose values are looked at."""


def state_demands(torch: Any, table: MutableMapping[Any, Callable[..., Any]]) -> None:
    """Let the decompositions of a table state what their operators demand."""
    for operator in list(table.keys()):
        demand = _DEMANDS.get(str(operator))
        if demand is not None:
            table[operator] = _stating(torch, operator, table[operator], demand)


def _stating(
    torch: Any, operator: Any, decomposition: Callable[..., Any], demand: Demand
) -> Callable[..., Any]:
    parameters = operator._schema.arguments
    within = _within(torch)

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        call = {one.name: one.default_value for one in parameters if one.has_default_value()}
        call.update(zip((one.name for one in parameters), args, strict=False))
        call.update(kwargs)
        demand(call, within)
        positional = [call[one.name] for one in parameters if not one.kwarg_only]
        named = {one.name: call[one.name] for one in parameters if one.kwarg_only}
        return decomposition(*positional, **named)

    return decomposed


def _rows(call: Mapping[str, Any]) -> int:
    x = call["self"]
    return int(x.shape[call["dim"]]) if x.dim() else 1


def _from_zero(name: str, end: Callable[[Mapping[str, Any]], int], of: str) -> Demand:
    """Demand that an argument is from 0 to below an end."""

    def demand(call: dict[str, Any], within: Within) -> None:
        call[name] = within(call[name], 0.0, float(end(call) - 1), f"an index of {of}")

    return demand


def _probabilities(call: dict[str, Any], within: Within) -> None:
    call["self"] = within(call["self"], 0.0, 1.0, "a probability of binary_cross_entropy")
    call["target"] = within(call["target"], 0.0, 1.0, "a target of binary_cross_entropy")


def _from_end(call: dict[str, Any], _: Within) -> None:
    """Let negative indices count from the end: torch makes an ``index_copy`` of it, which not."""
    index = call["index"]
    call["index"] = (index < 0) * _rows(call) + index


def _pooled(call: Mapping[str, Any]) -> int:
    return math.prod(call["output_size"])


_DEMANDS: Mapping[str, Demand] = {
    "aten.index_add.default": _from_zero("index", _rows, "index_add"),
    "aten.index_copy.default": _from_zero("index", _rows, "index_copy"),
    "aten.index_fill.int_Scalar": _from_end,
    "aten.index_fill.int_Tensor": _from_end,
    "aten.max_unpool2d.default": _from_zero("indices", _pooled, "max_unpool2d"),
    "aten.max_unpool3d.default": _from_zero("indices", _pooled, "max_unpool3d"),
    "aten.one_hot.default": _from_zero("self", lambda call: call["num_classes"], "one_hot"),
    "aten.binary_cross_entropy.default": _probabilities,
}


@cache
def _within(torch: Any) -> Any:
    """Return the operator that gives back a tensor whose values are in a range."""

    def within(x: Any, low: float, high: float, what: str) -> Any:
        return x.clone()

    schema = "(Tensor x, float low, float high, str what) -> Tensor"
    made = torch.library.custom_op("schedlang::within", within, mutates_args=(), schema=schema)
    made.register_fake(within)
    return torch.ops.schedlang.within.default


# -- Relax modules as users and TVM's ONNX front end make them, with their weights apart ----------


def read_relax(mod: IRModule) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a module whose ``main`` is a network, and the values of its parameters.

    As TVM's front ends write them, the attribute ``num_input`` of ``main`` says how many of its
    parameters are inputs, and ``params`` holds the values of the others. Without ``num_input`` all
    are inputs, and the weights are constants in the program.

    Raises ``NetworkError`` for a module without ``main``, for control flow, for dynamic shapes, for
    calls of other Relax functions, and for parameters without values.
    """
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    main = functions.get(MAIN)
    if not isinstance(main, relax.Function):
        listed = ", ".join(sorted(functions)) or "no function"
        raise NetworkError(f"the module has no Relax function {MAIN!r}; it has {listed}")
    for var, value in bindings(mod):
        if isinstance(value, relax.Call) and isinstance(value.op, GlobalVar):
            raise NetworkError(
                f"main calls the Relax function {value.op.name_hint!r} at {var}; inline it first "
                "(relax.transform.InlinePrivateFunctions)"
            )
    count = number_of_inputs(mod)
    for param in main.params:
        tensor_type(param.ty)
    given = list(main.attrs.get("params", ())) if main.attrs else []
    names = [str(param.name) for param in main.params[count:]]
    if len(given) != len(names):
        raise NetworkError(
            f"main takes {len(names)} parameters besides its {count} inputs, and its attribute "
            f"'params' has values for {len(given)}; bind them with relax.transform.BindParams"
        )
    plain = mod.clone()
    if given:
        plain.update_func(plain.get_global_var(MAIN), main.without_attr("params"))
    values = {name: np.array(value.numpy()) for name, value in zip(names, given, strict=True)}
    return with_inputs(plain, count), values


def read_onnx(
    model: Any, shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]
) -> IRModule:
    """Convert an ONNX model; the weights are constants in the program.

    ``shapes`` and ``dtypes`` replace those of the model's inputs. Raises
    ``UnsupportedOperatorError`` with the operators that have no converter and their nodes.
    """
    from tvm.relax.frontend.onnx import onnx_frontend

    known = onnx_frontend._get_convert_map()
    missing: dict[str, list[str]] = {}
    for number, node in enumerate(model.graph.node):
        if node.op_type not in known and node.op_type not in ("Constant", "If"):
            shown = f"node {node.name or number!r}, which computes {', '.join(node.output)}"
            missing.setdefault(node.op_type, []).append(shown)
    if missing:
        lines = [f"  {name} in {'; '.join(places[:3])}" for name, places in missing.items()]
        raise UnsupportedOperatorError(
            "operators of ONNX that TVM cannot import:\n" + "\n".join(lines), missing
        )
    with BUILDING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an input was renamed
        try:
            return onnx_frontend.from_onnx(
                model,
                shape_dict={name: list(shape) for name, shape in shapes.items()},
                dtype_dict=dict(dtypes),
            )
        except Exception as error:  # the front end raises errors of every type
            message = f"TVM cannot import this ONNX model: {first_line(error)}"
            raise NetworkError(message) from error
