"""The kin key: equal for programs of the same structure and other shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import te, topi

import schedlang as sl
from schedlang.workloads import from_script

C2D, CBR = sl.workloads.C2D, sl.workloads.CBR


def of_relay(channels: int, size: int, kernel: int, stride: int, *, relu: bool = True) -> Any:
    """A convolution as networks are imported: NCHW, padding in a block of its own, bias, relu."""
    data = te.placeholder((1, channels, size, size), "float32", "data")
    weight = te.placeholder((2 * channels, channels, kernel, kernel), "float32", "weight")
    bias = te.placeholder((1, 2 * channels, 1, 1), "float32", "bias")
    product = topi.nn.conv2d_nchw(data, weight, stride, kernel // 2, 1)
    out = topi.add(product, bias)
    if relu:
        return sl.workloads.from_te([data, weight, bias, topi.nn.relu(out)])
    return sl.workloads.from_te([data, weight, bias, topi.clip(out, 0.0, 6.0)])


def test_shapes_strides_and_padding_do_not_count() -> None:
    keys = {CBR(*shape).kin_key for shape in [(8, 8, 4, 8, 3, 1, 1), (9, 7, 16, 4, 3, 2, 0)]}
    assert len(keys) == 1
    assert len({CBR(8, 8, 4, c, 3, 1, 1).family_key for c in (8, 16)}) == 2
    padded = of_relay(8, 14, 3, 1)
    assert padded.kin_key == of_relay(16, 7, 1, 1).kin_key == of_relay(4, 28, 5, 2).kin_key


def test_what_an_element_wise_block_computes_does_not_count() -> None:
    assert of_relay(8, 14, 3, 1).kin_key == of_relay(8, 14, 3, 1, relu=False).kin_key


def test_names_do_not_count() -> None:
    text = """
@T.prim_func(s_tir=True)
def main({A}: T.Buffer(({n}, 8), "float32"), {B}: T.Buffer(({n}, 8), "float32")):
    for {i}, j in T.grid({n}, 8):
        with T.sblock("{B}"):
            vi, vj = T.axis.remap("SS", [{i}, j])
            {B}[vi, vj] = {A}[vi, vj] + T.float32({n})
"""
    one = from_script(text.format(A="A", B="B", i="i", n=4))
    other = from_script(text.format(A="X", B="Y", i="row", n=6))
    assert one.kin_key == other.kin_key and one.exact_key != other.exact_key


def matrix(
    value: Callable[..., Any] = lambda a, b, i, j, k: a[i, k] * b[k, j],
    *,
    dtype: str = "float32",
    after: Callable[[Any], Any] | None = None,
) -> sl.Workload:
    a, b = (te.placeholder((8, 8), dtype, name) for name in "AB")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((8, 8), lambda i, j: te.sum(value(a, b, i, j, k), axis=k), "C")
    out = c if after is None else te.compute((8, 8), lambda i, j: after(c[i, j]), "D")
    return sl.workloads.from_te([a, b, out])


def test_the_structure_counts() -> None:
    programs = [
        matrix(),
        matrix(lambda a, b, i, j, k: a[i, k] * b[j, k]),
        matrix(lambda a, b, i, j, k: a[i, k] + b[k, j]),
        matrix(lambda a, b, i, j, k: te.if_then_else(i > k, a[i, k], b[k, j])),
        matrix(dtype="float16"),
        matrix(after=lambda value: value + 1.0),
        matrix(after=te.exp),
        sl.workloads.matmul(8, 8, 8),
        sl.workloads.GMM(8, 8, 8),
        sl.workloads.SFM(8, 8),
        sl.workloads.NRM(8, 8),
        sl.workloads.DEP(8, 8, 4, 3, 1, 1),
        CBR(8, 8, 4, 8, 3, 1, 1),
        C2D(8, 8, 4, 8, 3, 1, 1),
    ]
    keys = [one.kin_key for one in programs]
    assert keys[0] == keys[7], "the product of the library is the first one"
    del keys[7]
    assert len(set(keys)) == len(keys)


def test_weights_do_not_count_and_other_attributes_do() -> None:
    plain = sl.workloads.matmul(8, 8, 8)
    func = sl.workloads.matmul(16, 8, 4).func
    weights = sl.workloads.from_prim_func(func.with_attr("layout_free_buffers", [1]))
    assert weights.kin_key == plain.kin_key
    assert sl.workloads.from_prim_func(func.with_attr("mine", 1)).kin_key != plain.kin_key


def test_what_is_not_analysed_is_kin_of_itself_only() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = T.float32(0)
            while B[vi] < A[vi]:
                B[vi] = B[vi] + T.float32(1)
"""
    workload = from_script(text)
    assert workload.kin_key == workload.exact_key


@pytest.mark.parametrize("name", ["C1D", "C2D", "C3D", "DEP", "GMM", "SFM", "TBG", "T2D"])
def test_every_size_of_an_operator_is_kin(name: str) -> None:
    assert len({workload.kin_key for workload in sl.workloads.standard(name)}) == 1
