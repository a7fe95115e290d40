"""Quantised weights of ONNX models as plain numbers, which TVM's front end can read.

What takes few bits is found again when the network is lowered (``schedlang.tvm.relax.low_bit``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.errors import require

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
