"""Quantised weights of ONNX models: read whatever their form, and kept in few bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.tvm.relax import low_bit_weights

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'schedlang[onnx]'")

helper, from_array, TensorProto = onnx.helper, onnx.numpy_helper.from_array, onnx.TensorProto
Array = np.ndarray[Any, Any]
K, N, BLOCK = 256, 192, 32


@pytest.fixture(autouse=True)
def small_networks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of small weights read packed ones, as those of large weights do."""
    monkeypatch.setattr(low_bit_weights, "_LEAST_BYTES", 0)


def model(nodes: list[Any], values: dict[str, Any], k: int = K, n: int = N) -> Any:
    """A model from x (1, k) to y (1, n); values are arrays, or tensors of ONNX."""
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, n])],
        [
            from_array(value, name) if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        ],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def drawn(*shape: int, bits: int = 4, signed: bool = False) -> Array:
    found = np.random.default_rng(0).integers(0, 1 << bits, shape)
    return (found - (1 << (bits - 1)) if signed else found).astype("int8" if signed else "uint8")


def scales(*shape: int) -> Array:
    return (np.random.default_rng(1).random(shape) + 0.1).astype("float32")


def of_uint4(name: str, values: Array) -> Any:
    return helper.make_tensor(name, TensorProto.UINT4, values.shape, values.ravel().tolist())


def check(made: Any, weights: Array, bias: Array | float = 0.0, bits: int = 4) -> None:
    """The network computes x @ weights + bias and stores few bits a weight."""
    network = sl.import_network(made)
    k, n = weights.shape
    stored = sum(value.nbytes for value in network.parameters.values())
    assert stored <= k * n * (bits / 8 + 5 / BLOCK) + 4 * n
    assert any("low_bit_matmul" in task.name for task in network.tasks)
    x = np.random.default_rng(2).standard_normal((1, k)).astype("float32")
    expected = x @ weights + bias
    found = sl.compile_network(network)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def dequantised(*, axis: int, **attributes: Any) -> list[Any]:
    return [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis, **attributes),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]


def test_bytes_with_a_scale_for_each_column() -> None:
    w, s = drawn(K, N, bits=8, signed=True), scales(N)
    values = {"w": w, "s": s, "z": np.zeros(N, "int8")}
    check(model(dequantised(axis=1), values), w * s, bits=8)


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_with_zero_points(packed: bool) -> None:
    w, z, s = drawn(K, N), drawn(K // BLOCK, N), scales(K // BLOCK, N)
    plain = (w.astype("float32") - np.repeat(z, BLOCK, 0)) * np.repeat(s, BLOCK, 0)
    values: dict[str, Any] = {"w": w, "s": s, "z": z}
    if packed:
        values |= {name: of_uint4(name, values[name]) for name in ("w", "z")}
    check(model(dequantised(axis=0, block_size=BLOCK), values), plain)


@pytest.mark.slow
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("k", [K, K - 12])
def test_a_product_of_onnx_runtime(zeros: str, bits: int, k: int) -> None:
    blocks = -(-k // BLOCK)
    q, s = drawn(N, blocks, BLOCK, bits=bits), scales(N, blocks)
    z = drawn(N, blocks + blocks % 2, bits=bits)
    bias = np.arange(N, dtype="float32")
    values: dict[str, Any] = {"b": pack(q) if bits == 4 else q, "s": s.ravel(), "bias": bias}
    if zeros != "none":
        given = z if bits == 8 else pack(z)
        given = given[:, :blocks] if bits == 8 else given
        values["z"] = given if zeros == "packed" else z[:, :blocks].astype("float32")
    names = ["x", "b", "s", "z" if "z" in values else "", "", "bias"]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=k, N=N, bits=bits, block_size=BLOCK
    )
    zero = z[:, :blocks, None] if "z" in values else 1 << (bits - 1)
    plain = ((q.astype("float32") - zero) * s[..., None]).reshape(N, -1)[:, :k].T
    network = sl.import_network(model([node], values, k))
    assert [item.shape for item in network.outputs] == [(1, N)]
    if k == K:
        check(model([node], values, k), plain, bias, bits)
    x = np.random.default_rng(2).standard_normal((1, k)).astype("float32")
    expected = x @ plain + bias
    found = sl.compile_network(network)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def pack(q: Array) -> Array:
    return np.asarray(q[..., 0::2] | (q[..., 1::2] << 4))


def test_permuted_groups_are_refused_by_name() -> None:
    values = {"b": drawn(N, K // BLOCK, BLOCK // 2, bits=8), "s": scales(N * K // BLOCK)}
    values["g"] = np.zeros(K, "int32")
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s", "", "g"], ["y"], domain="com.microsoft", K=K, N=N,
        bits=4, block_size=BLOCK,
    )  # fmt: skip
    with pytest.raises(sl.UnsupportedOperatorError, match="MatMulNBits"):
        sl.import_network(model([node], values))


def test_the_reference_is_the_model() -> None:
    values = {"b": drawn(N, K // BLOCK, BLOCK // 2, bits=8), "s": scales(N * K // BLOCK)}
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=K, N=N, bits=4,
        block_size=BLOCK,
    )  # fmt: skip
    network = sl.import_network(model([node], values))
    assert sl.compile_network(network).verify().passed
