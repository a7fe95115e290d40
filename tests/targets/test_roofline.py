from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te

from schedlang.targets import Target
from schedlang.targets.roofline import peak_of, roofline_of, shortest_time
from schedlang.workloads import from_te, matmul
from schedlang.workloads.workload import Workload


@pytest.mark.parametrize(("dtype", "elements"), [("float64", 1), ("float32", 1), ("float16", 2)])
def test_the_shortest_time_leaves_room(dtype: str, elements: int) -> None:
    target = Target("cpu", peak_flops=1e9)
    workload = matmul(64, 64, 64, dtype=dtype)
    assert shortest_time(workload, target) == 2 * 64**3 / (4e9 * elements)
    assert shortest_time(workload, Target("cpu", peak_flops=math.inf)) == 0


def product(unpack: Callable[[Any], Any], packed: str, total: str) -> Workload:
    """``A @ unpack(W)`` with A in the type of the sum."""
    a, w = te.placeholder((64, 64), total, name="A"), te.placeholder((64, 64), packed, name="W")
    k = te.reduce_axis((0, 64), name="k")
    weight = te.compute((64, 64), lambda i, j: unpack(w[i, j]).astype(total), name="U")
    rows = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * weight[k, j], axis=k), name="C")
    return from_te([a, w, rows])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_packed_weights_are_multiplied_in_the_type_of_the_operands(dtype: str) -> None:
    """The narrowest argument had counted: float32 products of int8 got four times the peak."""
    target = Target("cpu", peak_flops=1e9)
    for unpack in (lambda w: w, lambda w: (w >> 4) - 8):
        found = product(unpack, "int8", dtype)
        assert peak_of(found, target) == 1e9 * 32 / (8 * np.dtype(dtype).itemsize)


def test_products_of_int8_are_of_8_bits_whatever_type_sums_them() -> None:
    a, b = (te.placeholder((64, 64), "int8", name=name) for name in "AB")
    k = te.reduce_axis((0, 64), name="k")

    def term(i: Any, j: Any) -> Any:
        return te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)

    found = from_te([a, b, te.compute((64, 64), term, name="C")])
    assert found.operand_bits == 8
    assert peak_of(found, Target("cpu", peak_flops=1e9)) == 4e9


def test_masks_and_places_are_no_operands() -> None:
    a, m = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), "int8", name="M")
    masked = te.compute((8, 8), lambda i, j: te.if_then_else(m[i, j] > 0, a[i, j] * 2.0, 0.0))
    assert from_te([a, m, masked]).operand_bits == 32
    assert from_te([a, te.compute((8, 8), lambda i, j: a[j, i])]).operand_bits == 0


def test_what_only_moves_data_is_always_believed() -> None:
    a = te.placeholder((8, 8), name="A")
    workload = from_te([a, te.compute((8, 8), lambda i, j: a[j, i], name="B")])
    assert shortest_time(workload, Target("cpu")) == 0


def test_the_roofline_is_the_longer_of_two_times() -> None:
    target = Target("cpu", peak_flops=1e9)
    workload = matmul(64, 64, 64)
    found = roofline_of(workload, target)
    assert (found.seconds, found.limit) == (2 * 64**3 / 1e9, "arithmetic")
    assert found.share(2 * found.seconds) == 0.5
    measured = roofline_of(workload, target, flops_per_second=5e8)
    assert measured.seconds == 2 * found.seconds
    slow = roofline_of(workload, target, bytes_per_second=1e6)
    assert (slow.seconds, slow.limit) == (3 * 4 * 64**2 / 1e6, "memory")
    assert roofline_of(workload, Target("cpu", peak_flops=math.inf)).seconds == 0


def test_a_memory_limits_what_does_not_fit_into_the_cache() -> None:
    target = Target("nvidia/h100")
    assert roofline_of(matmul(64, 64, 64), target).limit == "arithmetic"
    thin = matmul(8192, 8192, 1)
    found = roofline_of(thin, target)
    assert found.limit == "memory"
    assert found.seconds == (8192 * 8192 + 2 * 8192) * 4 / target.memory_bytes_per_second
