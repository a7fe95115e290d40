"""ONNX models and files as networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'schedlang[onnx]'")

helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto

RNG = np.random.default_rng(0)


def model(batch: Any = 1, operator: str = "Relu") -> Any:
    """Convolution, batch norm, an activation and a dense layer."""
    weights = {
        "w": RNG.standard_normal((4, 2, 3, 3)),
        "gamma": RNG.standard_normal(4),
        "beta": RNG.standard_normal(4),
        "mean": RNG.standard_normal(4),
        "variance": RNG.random(4) + 0.5,
        "dense": RNG.standard_normal((64, 3)),
        "bias": RNG.standard_normal(3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"]),
        helper.make_node(operator, ["n"], ["r"], name="activation"),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "dense", "bias"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 2, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(value.astype(np.float32), key) for key, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_and_its_file(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    made = model()
    onnx.save(made, path)
    for given in (made, path, str(path)):
        network = sl.import_network(given)
        assert [call.function for call in network.calls] == [
            "fused_conv2d_add_relu",
            "reshape",
            "fused_matmul_add1",
        ]
    assert network.name == "small"
    assert network.inputs[0].name == "x"
    assert network.outputs[0].name == "y"
    found = network.verify()
    assert found.passed, str(found)


def test_a_dynamic_shape_needs_examples() -> None:
    with pytest.raises(sl.NetworkError, match=r"input 'x' .* dynamic shape \['n', 2, 4, 4\]"):
        sl.import_network(model("n"))
    network = sl.import_network(model("n"), {"x": np.ones((2, 2, 4, 4), np.float32)})
    assert network.inputs[0].shape == (2, 2, 4, 4)
    assert network.verify().passed
    with pytest.raises(sl.NetworkError, match="takes x; got 2 example inputs"):
        sl.import_network(model("n"), (1, 2))


def test_an_operator_that_is_not_known() -> None:
    with pytest.raises(sl.UnsupportedOperatorError, match="DeformConv in node 'activation'"):
        sl.import_network(model(operator="DeformConv"))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(sl.NetworkError, match="no ONNX file"):
        sl.import_network(tmp_path / "absent.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(sl.NetworkError, match="is no ONNX file"):
        sl.import_network(tmp_path / "text.onnx")
