from __future__ import annotations

import math

import pytest
from tvm import te

from schedlang.targets import Target
from schedlang.targets.roofline import roofline_of, shortest_time
from schedlang.workloads import from_te, matmul


@pytest.mark.parametrize(("dtype", "elements"), [("float64", 1), ("float32", 1), ("float16", 2)])
def test_the_shortest_time_leaves_room(dtype: str, elements: int) -> None:
    target = Target("cpu", peak_flops=1e9)
    workload = matmul(64, 64, 64, dtype=dtype)
    assert shortest_time(workload, target) == 2 * 64**3 / (4e9 * elements)
    assert shortest_time(workload, Target("cpu", peak_flops=math.inf)) == 0


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
