"""The operators of MetaSchedule's appendix A.2: the right programs, computing the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from scipy.special import softmax
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload

from schedlang import workloads
from schedlang.errors import WorkloadError
from schedlang.tvm.packing import weight_positions
from schedlang.workloads.workload import Workload

PAPER = (
    "C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "T2D", "TBG",
)  # fmt: skip
Array = np.ndarray[Any, Any]


def test_names_are_the_papers_and_the_plain_products() -> None:
    assert workloads.names() == (*PAPER, "matmul", "quantized_matmul")


@pytest.mark.parametrize("name", PAPER)
def test_standard_shapes_are_the_programs_of_tvms_suite(name: str) -> None:
    ours = workloads.standard(name)
    assert len(ours) == 4
    for index, workload in enumerate(ours):
        assert tvm_ffi.structural_equal(workload.func, create_te_workload(name, index))
    assert workloads.get(name) == ours[0]


@pytest.mark.parametrize("name", workloads.names())
def test_source_makes_the_workload_again(name: str) -> None:
    workload = workloads.get(name)
    again = eval(workload.source.removeprefix("sl."), {"workloads": workloads})
    assert again == workload
    assert again.source == workload.source


def test_source_shows_the_shape_and_what_is_not_default() -> None:
    assert workloads.GMM(256).source == "sl.workloads.GMM(n=256, m=128, k=128)"
    assert workloads.matmul(8, 8, 8, dtype="int8").source == (
        "sl.workloads.matmul(n=8, m=8, k=8, dtype='int8')"
    )


def test_flops_count_a_multiply_add_as_two() -> None:
    assert workloads.GMM().flops == 2 * 128**3
    assert workloads.C2D().flops == 2 * 112 * 112 * 64 * 7 * 7 * 3


def test_long_names_are_the_same_functions() -> None:
    assert workloads.conv2d is workloads.C2D
    assert workloads.get("conv2d_bn_relu") == workloads.CBR()
    assert len(workloads.get("matmul").args[0].shape) == 2
    assert len(workloads.get("batch_matmul").args[0].shape) == 3


def run(workload: Workload) -> tuple[list[Array], Array]:
    """Inputs drawn with a fixed seed, and what the compiled program makes of them."""
    rng = np.random.default_rng(0)
    arrays = []
    for argument in workload.args:
        if argument.role == "output":
            arrays.append(np.full(argument.shape, 77, argument.dtype))
        elif argument.dtype == "int8":
            arrays.append(rng.integers(-128, 128, argument.shape).astype("int8"))
        else:
            arrays.append(rng.standard_normal(argument.shape).astype(argument.dtype))
    passed = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(workload.mod, target="llvm")["main"](*passed)
    return arrays[:-1], passed[-1].numpy()


def reference_conv(
    x: Array, w: Array, stride: int, padding: int, dilation: int = 1, groups: int = 1
) -> Array:
    """Channels-last convolution, one window position at a time."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), *[(padding, padding)] * rank, (0, 0)])
    window = w.shape[:rank]
    outs = [(x.shape[1 + d] - dilation * (window[d] - 1) - 1) // stride + 1 for d in range(rank)]
    group_in, group_out = x.shape[-1] // groups, w.shape[-1] // groups
    out = np.zeros((x.shape[0], *outs, w.shape[-1]), np.float64)
    for offset in np.ndindex(*window):
        taken = tuple(
            slice(o * dilation, o * dilation + stride * (n - 1) + 1, stride)
            for o, n in zip(offset, outs, strict=True)
        )
        seen = x[(slice(None), *taken)]
        for g in range(groups):
            ins = slice(g * group_in, (g + 1) * group_in)
            into = slice(g * group_out, (g + 1) * group_out)
            out[..., into] += seen[..., ins].astype(np.float64) @ w[offset][:, into]
    return out


def reference_depthwise(x: Array, w: Array) -> Array:
    full = np.zeros((*w.shape[1:], w.shape[-1]), w.dtype)
    for channel in range(w.shape[-1]):
        full[:, :, channel, channel] = w[0, :, :, channel]
    return reference_conv(x, full, 2, 1)


def reference_transposed(x: Array, w: Array, stride: int, padding: int) -> Array:
    n, h, wide, _ = x.shape
    kernel = w.shape[0]
    out = np.zeros(
        (n, (h - 1) * stride + kernel, (wide - 1) * stride + kernel, w.shape[-1]), np.float64
    )
    for y, z in np.ndindex(h, wide):
        spread = np.einsum("nc,hwco->nhwo", x[:, y, z], w)
        out[:, y * stride : y * stride + kernel, z * stride : z * stride + kernel] += spread
    return out[:, padding : out.shape[1] - padding, padding : out.shape[2] - padding]


def reference_capsule(x: Array, w: Array) -> Array:
    size = x.shape[3]
    out = None
    for k in range(size):
        parts = [
            [reference_conv(x[:, :, :, i, k], w[:, :, k, j], 2, 1) for j in range(size)]
            for i in range(size)
        ]
        term = np.stack([np.stack(row, axis=3) for row in parts], axis=3)
        out = term if out is None else out + term
    assert out is not None
    return out


def reference_cbr(x: Array, w: Array, bias: Array, offset: Array, scale: Array) -> Array:
    return np.maximum((reference_conv(x, w, 2, 1) + bias) * scale + offset, 0)


def unpacked(w: Array, s: Array, z: Array | None = None) -> Array:
    """The weights that bytes, scales and zero points stand for, unpacked by numpy."""
    low, columns = w.dtype == np.uint8 and z is None, w.shape[1]
    if low:  # without zero points unsigned bytes hold two weights each
        w = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1)
        columns *= 2
    zero = (8 if low else 0) if z is None else np.repeat(z.astype(int), columns // z.shape[1], 1)
    return (w.astype(int) - zero) * np.repeat(s.astype("float64"), columns // s.shape[1], 1)


def reference_quantized(a: Array, w: Array, s: Array, z: Array | None = None) -> Array:
    return np.asarray(a.astype("float64") @ unpacked(w, s, z).T)


CASES: dict[str, tuple[Workload, Callable[..., Array]]] = {
    "C1D": (workloads.C1D(9, 3, 4, 3, 2, 1), lambda x, w: reference_conv(x, w, 2, 1)),
    "C2D": (workloads.C2D(7, 9, 3, 4, 3, 2, 1, batch=2), lambda x, w: reference_conv(x, w, 2, 1)),
    "C3D": (workloads.C3D(4, 5, 6, 2, 3, 3, 1, 0), lambda x, w: reference_conv(x, w, 1, 0)),
    "DEP": (workloads.DEP(7, 8, 5, 3, 2, 1), reference_depthwise),
    "DIL": (workloads.DIL(9, 8, 3, 4, 3, 1, 1, 2), lambda x, w: reference_conv(x, w, 1, 1, 2)),
    "GRP": (workloads.GRP(6, 7, 6, 4, 3, 2, 1, 2), lambda x, w: reference_conv(x, w, 2, 1, 1, 2)),
    "GMM": (workloads.GMM(5, 6, 7, batch=2), np.matmul),
    "T2D": (workloads.T2D(3, 4, 5, 6, 4, 2, 1), lambda x, w: reference_transposed(x, w, 2, 1)),
    "CAP": (workloads.CAP(5, 6, 3, 4, 3, 2, 1, 2), reference_capsule),
    "NRM": (workloads.NRM(5, 6, batch=3), lambda a: np.sqrt((a * a).sum(axis=(1, 2)))),
    "SFM": (workloads.SFM(5, 6), lambda a: softmax(a, axis=1)),
    "CBR": (workloads.CBR(7, 8, 3, 4, 3, 2, 1), reference_cbr),
    "TBG": (workloads.TBG(5, 2, 3), lambda q, v: np.einsum("bihk,bjhk->bhij", q, v)),
    "matmul": (workloads.matmul(5, 6, 7), np.matmul),
    "quantized_matmul": (workloads.quantized_matmul(3, 5, 8), reference_quantized),
    "quantized_matmul in groups": (
        workloads.quantized_matmul(3, 5, 12, group=4),
        reference_quantized,
    ),
    "quantized_matmul in odd groups": (
        workloads.quantized_matmul(2, 3, 30, group=15),
        reference_quantized,
    ),
    "quantized_matmul of 8 bits": (
        workloads.quantized_matmul(3, 5, 9, bits=8, group=3),
        reference_quantized,
    ),
    "quantized_matmul of 8 bits with zero points": (
        workloads.quantized_matmul(3, 5, 9, bits=8, group=3, zero_points=True),
        reference_quantized,
    ),
    "odd transposed": (
        workloads.T2D(3, 4, 2, 3, 4, 3, 1),
        lambda x, w: reference_transposed(x, w, 3, 1),
    ),
    "transposed, stride 1": (
        workloads.T2D(3, 4, 2, 3, 3, 1, 1),
        lambda x, w: reference_transposed(x, w, 1, 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_agree_with_numpy(case: str) -> None:
    workload, reference = CASES[case]
    inputs, output = run(workload)
    np.testing.assert_allclose(output, reference(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_bfloat16_is_computed_in_float32(case: str) -> None:
    """Products are exact in float32; only norm and softmax round their result to bfloat16."""
    workload, reference = CASES[case]
    source = workload.source.removeprefix("sl.").removesuffix(")") + ", dtype='bfloat16')"
    half = eval(source, {"workloads": workloads})
    inner = {a.dtype for a in half.args if a.role == "input"}
    assert inner - {"uint8", "int8"} == {"bfloat16"}
    rounded = half.name in ("NRM", "SFM")
    assert half.args[-1].dtype == ("bfloat16" if rounded else "float32")
    inputs, output = run(half)
    expected = reference(*(x if x.dtype.kind in "iu" else x.astype("float32") for x in inputs))
    precision = 2.0**-8 if rounded else 1e-5
    np.testing.assert_allclose(output.astype("float32"), expected, rtol=precision, atol=1e-5)


def test_bfloat16_products_can_be_summed_in_bfloat16() -> None:
    workload = workloads.matmul(4, 5, 6, dtype="bfloat16", out_dtype="bfloat16")
    (a, b), output = run(workload)
    assert output.dtype == a.dtype
    expected = a.astype("float32") @ b.astype("float32")
    # Six sums, each rounded to 8 bits.
    np.testing.assert_allclose(output.astype("float32"), expected, rtol=0.05, atol=0.05)
    with pytest.raises(WorkloadError, match="sum integers in integers, floats in floats"):
        workloads.matmul(dtype="bfloat16", out_dtype="int32")


def test_two_weights_of_four_bits_with_zero_points_are_a_byte() -> None:
    (a, w, s, z), output = run(workloads.quantized_matmul(2, 3, 8, group=4, zero_points=True))
    parts = np.stack([w & 15, w >> 4], axis=-1).reshape(3, 8)
    np.testing.assert_allclose(output, a @ unpacked(parts, s, z).T, rtol=1e-5)


def test_weights_of_the_operator_are_marked() -> None:
    made = workloads.quantized_matmul(4, 8, 16, group=4, zero_points=True)
    assert weight_positions(made.func) == (1, 2, 3)
    assert weight_positions(workloads.quantized_matmul(4, 8, 16, bits=8).func) == (1, 2)
    assert weight_positions(workloads.matmul().func) == ()


def test_every_operator_has_a_numeric_case() -> None:
    assert set(workloads.names()) <= set(CASES)


def test_int8_is_summed_in_int32() -> None:
    inputs, output = run(workloads.matmul(4, 4, 300, dtype="int8"))
    assert output.dtype == np.int32
    np.testing.assert_array_equal(output, inputs[0].astype(np.int32) @ inputs[1].astype(np.int32))


def test_float16_products_can_be_summed_in_float32() -> None:
    workload = workloads.GMM(4, 4, 4, dtype="float16", out_dtype="float32")
    assert [argument.dtype for argument in workload.args] == ["float16", "float16", "float32"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: workloads.GMM(n=0), r"GMM: n must be at least 1, not 0"),
        (lambda: workloads.GMM(k=-3), r"GMM: k must be at least 1, not -3"),
        (lambda: workloads.GMM(n=1.5), r"GMM: n must be an integer, not 1.5 \(float\)"),
        (lambda: workloads.GMM(n=True), r"GMM: n must be an integer, not True \(bool\)"),
        (lambda: workloads.C2D(padding=-1), r"C2D: padding must be at least 0, not -1"),
        (lambda: workloads.C2D(heigth=3), r"C2D: .*'heigth'; it takes height, width, in_channels"),
        (
            lambda: workloads.GMM(dtype="float8"),
            r"GMM: dtype must be one of float16, bfloat16, float32, float64, int8, not 'float8'",
        ),
        (
            lambda: workloads.SFM(dtype="int8"),
            r"SFM: dtype must be one of float16, bfloat16, float32, float64, not 'int8'",
        ),
        (
            lambda: workloads.GMM(dtype="int8", out_dtype="float32"),
            r"dtype='int8' with out_dtype='float32': sum integers in integers",
        ),
        (lambda: workloads.GRP(groups=3), r"GRP: groups=3 does not divide in_channels=64"),
        (
            lambda: workloads.C1D(length=2, kernel_size=9),
            r"C1D: a window of kernel_size=9 .* does not fit in an input of 2 with padding=1",
        ),
        (lambda: workloads.T2D(padding=4), r"T2D: padding=4 is too wide for kernel_size=4"),
        (lambda: workloads.quantized_matmul(bits=3), r"bits must be 4 or 8, not 3"),
        (
            lambda: workloads.quantized_matmul(k=64, group=48),
            r"group must divide k = 64, not be 48",
        ),
        (lambda: workloads.quantized_matmul(group=0), r"group must be at least 1, not 0"),
        (lambda: workloads.quantized_matmul(k=33), r"two weights are a byte, so k is even, not 33"),
        (lambda: workloads.quantized_matmul(zero_points=1), r"must be True or False, not 1"),
        (lambda: workloads.quantized_matmul(dtype="int8"), r"dtype must be one of float16"),
        (lambda: workloads.get("GMMM"), r"no operator 'GMMM'; did you mean 'GMM'\? Known: C1D"),
        (lambda: workloads.get("gmm"), r"did you mean 'GMM'\?"),
        (lambda: workloads.standard("nothing"), r"no operator 'nothing'. Known: .*SFM \(softmax\)"),
    ],
)
def test_wrong_parameters_are_named(make: Callable[[], Workload], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        make()


def test_numpy_integers_are_integers() -> None:
    assert workloads.GMM(n=np.int64(128)) == workloads.GMM()
