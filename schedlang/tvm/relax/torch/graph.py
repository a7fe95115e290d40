"""An ``ExportedProgram`` of torch as a Relax module, operator by operator.

Converters of our own replace those of TVM's front end that convert wrongly, imprecisely or not at
all. TVM 0.27 computes products of float64 in float32, ignores ``alpha`` of ``add`` and ``sub`` and
the scales of ``elu``, casts the scalar of ``integers * 0.5`` to an integer, does not drop values in
training, reads foreign memory at negative indices and where several tensors index different axes,
loses NaN in divisions that round, rounds the places of nearest neighbours, and reads the arguments
of ``batch_norm`` at the places of another operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from schedlang.errors import UnsupportedOperatorError
from schedlang.tvm.relax.program import BUILDING, MAIN, shape_of, with_inputs
from schedlang.tvm.relax.torch.arguments import Converter, cast, expected_type
from schedlang.tvm.relax.torch.arithmetic import ARITHMETIC
from schedlang.tvm.relax.torch.bits import SHIFTS
from schedlang.tvm.relax.torch.elementwise import ELEMENTWISE
from schedlang.tvm.relax.torch.images import IMAGES
from schedlang.tvm.relax.torch.indexing import INDEXING
from schedlang.tvm.relax.torch.normalisation import NORMALISATION
from schedlang.tvm.relax.torch.reductions import REDUCTIONS
from schedlang.tvm.values import dtype_of, is_integer

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
