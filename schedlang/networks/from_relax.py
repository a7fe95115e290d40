"""Networks from Relax modules, and from ONNX models, which TVM reads as Relax modules.

ONNX models with quantised weights are read with plain weights; what takes few bits is found again
when the network is lowered (``schedlang.tvm.relax.low_bit_weights``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import NetworkError, require
from schedlang.networks.convention import ByName, inputs_and_outputs
from schedlang.networks.network import Network
from schedlang.targets.deployment.tensor_arguments import as_numpy
from schedlang.tvm.relax.executable import NetworkExecutable
from schedlang.tvm.relax.front_ends import read_onnx, read_relax
from schedlang.tvm.relax.lowering import lower
from schedlang.workloads.wrong_kind import not_a_network

if TYPE_CHECKING:
    from schedlang.tvm.relax.network_program import NetworkProgram


# -- Networks from Relax modules ------------------------------------------------------------------


def from_relax(mod: NetworkProgram, example_inputs: Any, name: str, layout: str) -> Network:
    """Import a Relax module with a function ``main``; see ``import_network``."""
    original, parameters = read_relax(mod)

    def reference(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return NetworkExecutable.of_operators(original, parameters)(inputs)

    return network_of(original, parameters, example_inputs, name, layout, reference)


def network_of(
    mod: NetworkProgram,
    parameters: Mapping[str, np.ndarray],
    example_inputs: Any,
    name: str,
    layout: str,
    reference: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None,
    output_names: Sequence[str] | None = None,
) -> Network:
    """Return the network of Relax operators, whose inputs go by name."""
    mod, parameters = lower(mod, parameters, layout)
    inputs, outputs = inputs_and_outputs(mod, output_names)
    convention = ByName([tensor.name for tensor in inputs])
    network = Network(name, mod, parameters, inputs, outputs, convention, reference)
    if example_inputs is None:
        return network
    args, kwargs = arguments(example_inputs)
    examples = network.checked(convention.flatten(args, kwargs))
    copies = tuple(value.copy() for value in examples)
    return Network(name, mod, parameters, inputs, outputs, convention, reference, copies)


def arguments(examples: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return example inputs as positional and keyword arguments."""
    if isinstance(examples, dict):
        return (), examples
    return (tuple(examples) if isinstance(examples, tuple | list) else (examples,)), {}


def example_shapes(names: Sequence[str], examples: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the element type that the examples give to inputs of these names."""
    if examples is None:
        return {}
    args, kwargs = arguments(examples)
    if not kwargs and len(args) != len(names):
        raise NetworkError(f"the model takes {', '.join(names)}; got {len(args)} example inputs")
    values = ByName(names).flatten(args, kwargs)
    arrays = {name: as_numpy(value) for name, value in zip(names, values, strict=True)}
    return {name: (array.shape, str(array.dtype)) for name, array in arrays.items()}


# -- Networks from ONNX: models, and files of them ------------------------------------------------


def is_onnx(model: Any) -> bool:
    """Tell whether a model is an ONNX model or the path of a file, without importing onnx."""
    return isinstance(model, str | os.PathLike) or type(model).__name__ == "ModelProto"


def from_onnx(model: Any, example_inputs: Any, name: str | None, layout: str) -> Network:
    """Import an ONNX model or file; see ``import_network``."""
    onnx = require("onnx", "importing an ONNX model")
    model, shown = _opened(onnx, model)
    model = with_plain_weights(onnx, model)
    names = [item.name for item in _inputs(model)]
    given = example_shapes(names, example_inputs)
    _check_static(model, set(names) - set(given))
    mod = read_onnx(
        model,
        {input_name: shape for input_name, (shape, _) in given.items()},
        {input_name: dtype for input_name, (_, dtype) in given.items()},
    )
    mod, parameters = read_relax(mod)
    return network_of(
        mod,
        parameters,
        example_inputs,
        name or shown,
        layout,
        _reference(onnx, model, names),
        [item.name for item in model.graph.output],
    )


def opened_for_sizes(model: Any, examples: Sequence[Any], name: str | None) -> tuple[Any, str]:
    """Return an ONNX model, read once for all examples, and its name.

    Raises ``NetworkError`` where an axis of an input is fixed, and an example has another extent.
    """
    onnx = require("onnx", "importing an ONNX model")
    model, shown = _opened(onnx, model)
    items = {item.name: item.type.tensor_type.shape.dim for item in _inputs(model)}
    for place, example in enumerate(examples):
        for input_name, (shape, _) in example_shapes([*items], example).items():
            fixed = [
                one.dim_value if one.HasField("dim_value") else None for one in items[input_name]
            ]
            if any(one not in (None, extent) for one, extent in zip(fixed, shape, strict=False)):
                text = ", ".join("?" if one is None else str(one) for one in fixed)
                raise NetworkError(
                    f"input {input_name!r} of the ONNX model has the fixed shape [{text}], and "
                    f"example {place} has {list(shape)}: export the model with dynamic axes to "
                    "import it at several sizes"
                )
    return model, name or shown


def _opened(onnx: Any, model: Any) -> tuple[Any, str]:
    """Return the model, read where it is a path, and a name for it."""
    if not isinstance(model, str | os.PathLike):
        return model, "onnx"
    path = Path(model)
    if not path.is_file():
        if path.suffix != ".onnx":
            takes = "a network is imported from a model, or from an ONNX file"
            raise not_a_network(takes, model)
        raise NetworkError(f"there is no ONNX file {os.fspath(path)}")
    try:
        return onnx.load(path), path.stem
    except Exception as error:  # onnx raises errors of every type
        raise NetworkError(f"{os.fspath(path)} is no ONNX file: {error}") from error


def _inputs(model: Any) -> list[Any]:
    """Return the inputs of a model that have no value in it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [item for item in model.graph.input if item.name not in weights]


def _check_static(model: Any, names: set[str]) -> None:
    for item in model.graph.input:
        extents = item.type.tensor_type.shape.dim
        if item.name in names and not all(extent.HasField("dim_value") for extent in extents):
            shape = [extent.dim_value or extent.dim_param or "?" for extent in extents]
            raise NetworkError(
                f"input {item.name!r} of the ONNX model has the dynamic shape {shape}; give "
                "example inputs, whose shapes the network takes"
            )


def _reference(
    onnx: Any, model: Any, names: Sequence[str]
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    def reference(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        require("onnx.reference", "running an ONNX model")
        session = onnx.reference.ReferenceEvaluator(model)
        returned = session.run(None, dict(zip(names, inputs, strict=True)))
        return [np.asarray(value) for value in returned]

    return reference


# -- Quantised weights of ONNX models as plain numbers --------------------------------------------

_BYTE = 8


def with_plain_weights(onnx: Any, model: Any) -> Any:
    """Return a model whose quantised weights are initialisers of floating-point numbers.

    ``DequantizeLinear`` of initialisers is computed, in blocks too, and ``MatMulNBits`` of ONNX
    Runtime (4 or 8 bits, no ``g_idx``) becomes a ``MatMul``. Others stay as they are.
    """
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[Any] = []
    weights: list[Any] = []
    for node in model.graph.node:
        constant = all(name in known for name in node.input[1:] if name)
        if node.op_type == "DequantizeLinear" and constant and node.input[0] in known:
            array = _computed(onnx, model, node, known)
            weights.append(onnx.numpy_helper.from_array(array, node.output[0]))
        elif node.op_type == "MatMulNBits" and constant and _is_plain(onnx, node):
            array = _unpacked(onnx, node, known)
            name = f"{node.output[0]} weight"
            weights.append(onnx.numpy_helper.from_array(array, name))
            nodes += _product(onnx, node, name)
        else:
            nodes.append(node)
    if not weights:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:], changed.graph.initializer[:]
    changed.graph.node.extend(nodes)
    changed.graph.initializer.extend([*_left(model, nodes, known), *weights])
    return changed


def _left(model: Any, nodes: list[Any], known: dict[str, Any]) -> list[Any]:
    """Return the initialisers that are read still; TVM cannot read all types of the others."""
    inner = any(item.HasField("g") or item.graphs for node in nodes for item in node.attribute)
    ends = [*model.graph.input, *model.graph.output]
    read = {name for node in nodes for name in node.input}.union(item.name for item in ends)
    return [tensor for name, tensor in known.items() if inner or name in read]


def _computed(onnx: Any, model: Any, node: Any, known: dict[str, Any]) -> np.ndarray:
    """Return what a node computes of initialisers."""
    helper = onnx.helper
    output = helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
    values = [known[name] for name in dict.fromkeys(node.input) if name]
    graph = helper.make_graph([node], "weights", [], [output], values)
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    require("onnx.reference", "reading quantised weights of an ONNX model")
    [value] = onnx.reference.ReferenceEvaluator(alone).run(None, {})
    return np.asarray(value)


def _attributes(onnx: Any, node: Any) -> dict[str, Any]:
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def _is_plain(onnx: Any, node: Any) -> bool:
    """Whether a ``MatMulNBits`` has 4 or 8 bits, and does not permute its groups."""
    permuted = len(node.input) > 4 and bool(node.input[4])  # noqa: PLR2004
    return _attributes(onnx, node).get("bits", 4) in (4, _BYTE) and not permuted


def _unpacked(onnx: Any, node: Any, known: dict[str, Any]) -> np.ndarray:
    """Return the weights (K, N) of a ``MatMulNBits``."""
    given = _attributes(onnx, node)
    steps, columns, block = given["K"], given["N"], given["block_size"]
    bits = given.get("bits", 4)
    arrays = {name: onnx.numpy_helper.to_array(known[name]) for name in node.input[1:4] if name}
    stored, scales, zeros = map(arrays.get, (*node.input[1:4], "")[:3])
    assert stored is not None and scales is not None
    blocks = -(-steps // block)
    q = _integers(stored.reshape(columns, -1), bits)[:, : blocks * block]
    s = scales.reshape(columns, blocks, 1)
    if zeros is None:
        z: Any = 1 << (bits - 1)
    elif zeros.dtype == np.uint8:
        z = _integers(zeros.reshape(columns, -1), bits)[:, :blocks, None]
    else:
        z = zeros.reshape(columns, blocks, 1)
    weights = (q.reshape(columns, blocks, block).astype(s.dtype) - z) * s
    plain = weights.astype(s.dtype).reshape(columns, -1)[:, :steps]
    return np.ascontiguousarray(plain.T)


def _integers(stored: np.ndarray, bits: int) -> np.ndarray:
    """Return the integers (rows, n) in bytes, the first of two in the lower half."""
    if bits == _BYTE:
        return stored
    return np.stack([stored & 15, stored >> 4], axis=-1).reshape(len(stored), -1)


def _product(onnx: Any, node: Any, weight: str) -> list[Any]:
    """Return nodes that multiply with plain weights, and add the bias where there is one."""
    bias = node.input[5] if len(node.input) > 5 else ""  # noqa: PLR2004
    made = f"{node.output[0]} product" if bias else node.output[0]
    nodes = [onnx.helper.make_node("MatMul", [node.input[0], weight], [made], name=node.name)]
    if bias:
        nodes.append(onnx.helper.make_node("Add", [made, bias], [node.output[0]]))
    return nodes
