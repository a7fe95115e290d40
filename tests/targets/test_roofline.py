from __future__ import annotations

import math

import pytest
from tvm import te

from schedlang.targets import Target
from schedlang.targets.roofline import shortest_time
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
