"""What a ``jit`` function takes and returns."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import te
from tvm.script import tirx as T

import schedlang as sl
from schedlang.tvm.codegen import runtime
from tests.just_in_time.templates import add, conv, dense, halves

RNG = np.random.default_rng(0)
A = RNG.random((8, 16), np.float32)
B = RNG.random((16, 16), np.float32)


class OnlyDLPack:
    """A tensor of a library that we do not know, which says no shape."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.fixture(scope="module")
def product() -> sl.JitFunction:
    return sl.jit(dense, cache=False)


@pytest.mark.parametrize("kind", [np.asarray, runtime.borrow, OnlyDLPack])
def test_outputs_are_written_or_returned(product: sl.JitFunction, kind: Any) -> None:
    out = np.zeros((8, 16), np.float32)
    assert product(kind(A.copy()), kind(B.copy()), kind(out)) is None
    np.testing.assert_allclose(out, A @ B, rtol=1e-5)
    for _ in range(2):  # the first call, and those after it
        returned = product(kind(A.copy()), kind(B.copy()))
        assert type(returned) is np.ndarray and returned.ctypes.data % 64 == 0
        np.testing.assert_allclose(returned, A @ B, rtol=1e-5)


def test_tensors_of_torch_give_tensors_of_torch(product: sl.JitFunction) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A.copy()), torch.nn.Parameter(torch.from_numpy(B.copy()))
    for tensors in ((a, b), (A, b)):
        returned = product(*tensors)
        assert isinstance(returned, torch.Tensor) and returned.device.type == "cpu"
        assert not returned.requires_grad
        np.testing.assert_allclose(returned.numpy(), A @ B, rtol=1e-5)
    out = torch.empty(8, 16)
    assert product(a, b, out) is None
    np.testing.assert_allclose(out.numpy(), A @ B, rtol=1e-5)
    negatives = torch._neg_view(a)  # of what is stored
    np.testing.assert_allclose(product(negatives, b).numpy(), -A @ B, rtol=1e-5)


def test_the_extents_follow_the_shapes(product: sl.JitFunction) -> None:
    for rows in (1, 3, 8):
        np.testing.assert_allclose(product(A[:rows], B), A[:rows] @ B, rtol=1e-5)
    wide = RNG.random((4, 4), np.float32)
    np.testing.assert_allclose(product(wide, wide, width=4), wide @ wide, rtol=1e-5)
    np.testing.assert_allclose(product(wide, wide, rows=np.int64(4), width=4), wide @ wide, 1e-5)


def test_several_outputs_come_in_order_wherever_they_stand() -> None:
    x = np.arange(9, dtype=np.float32)
    low, high = sl.jit(halves, cache=False)(x)
    np.testing.assert_array_equal(low, x[:4])
    np.testing.assert_array_equal(high, x[4:])


@pytest.mark.parametrize("dtype", ["float64", "int32", "bfloat16"])
def test_a_setting_is_given_by_keyword(dtype: str) -> None:
    x = np.arange(8).astype(getattr(ml_dtypes, dtype, dtype))
    returned = sl.jit(add, cache=False)(x, x, dtype=dtype)
    assert returned.dtype == x.dtype
    np.testing.assert_array_equal(returned, x + x)


def test_extents_that_no_shape_tells_are_given_by_keyword() -> None:
    call = sl.jit(conv, cache=False)
    x, w = np.ones((1, 8, 8, 4), np.float32), np.ones((3, 3, 4, 4), np.float32)
    with pytest.raises(
        TypeError,
        match=r"conv: no shape tells stride and pad; give them by keyword: conv\(..., stride=",
    ):
        call(x, w)
    with pytest.raises(TypeError, match="no shape tells pad; give it by keyword"):
        call(x, w, stride=2)
    assert call(x, w, stride=2, pad=1).shape == (1, 4, 4, 4)
    assert call(x, w, stride=1, pad=1).shape == (1, 8, 8, 4)


def test_a_program_that_works_in_place_returns_nothing() -> None:
    def twice(n):  # type: ignore[no-untyped-def]
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((n,), "float32")) -> None:
            for i in range(n):
                with T.sblock("A"):
                    vi = T.axis.spatial(n, i)
                    A[vi] = A[vi] * T.float32(2)

        return main

    x = np.ones(8, np.float32)
    assert sl.jit(twice, cache=False)(x) is None
    np.testing.assert_array_equal(x, np.full(8, 2, np.float32))


@pytest.mark.parametrize(
    ("tensors", "error", "match"),
    [
        ((A,), TypeError, r"dense takes 3 tensors \(A, B, C\), or without outputs 2 \(A, B\)"),
        ((A[0], B), ValueError, r"argument 0 has the shape \(16,\); dense\(width=16\) takes A: "),
        ((A, B[:4]), ValueError, r"argument 1 .*takes B: float32\[16, 16\]"),
        ((A.astype("float64"), B), TypeError, r"argument 0 is float64; dense\(rows=8, width=16\) "),
        ((A, B, np.zeros((4, 16), "float32")), ValueError, "argument 0 tells rows=8"),
        (([1.0], B), TypeError, "argument 0 is a list; give a numpy array"),
        ((A.T.copy().T, B), ValueError, "argument 0 is not C-contiguous"),
        ((A.astype(">f4"), B), TypeError, "argument 0 is >f4"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    product: sl.JitFunction, tensors: tuple[Any, ...], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        product(*tensors)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"row": 8}, "dense has no parameter 'row'; did you mean 'rows'"),
        ({"rows": 2.5}, "rows=2.5 is no integer, and it is an extent"),
        ({"width": [16]}, "is a list, which cannot be part of a key"),
    ],
)
def test_keywords_that_do_not_fit_are_named(
    product: sl.JitFunction, given: dict[str, Any], match: str
) -> None:
    with pytest.raises(TypeError, match=match):
        product(A, B, **given)


def test_values_of_other_types_are_other_values() -> None:
    """``1 == True``, and a template may tell them apart."""

    def shifted(n, *, by=0):  # type: ignore[no-untyped-def]
        x = te.placeholder((n,), name="X")
        return [x, te.compute((n,), lambda i: x[i] + (10.0 if by is True else by), name="Y")]

    call, x = sl.jit(shifted, cache=False), np.zeros(2, np.float32)
    assert [call(x, by=by)[0] for by in (1, True, 1, True)] == [1, 10, 1, 10]


def test_the_compiled_function_takes_all_tensors(product: sl.JitFunction) -> None:
    kernel = product[{"rows": 8}]
    assert kernel is product.kernel(rows=8) and isinstance(kernel, sl.targets.CompiledFunction)
    out = np.empty((8, 16), np.float32)
    kernel(A, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-5)
    with pytest.raises(TypeError, match="dense needs a value for rows"):
        product.kernel(width=16)
    with pytest.raises(TypeError, match=r"takes a dict of extents, such as \{'rows': 64\}; got 8"):
        product[8]
