"""What the CUDA space and UseTensorCore make computes the right numbers, without a GPU.

``benchmarks/cuda_samples.py --emulate`` does the same with more samples.
"""

from __future__ import annotations

import pytest

import schedlang as sl
from tests.lab.emulator.programs import needs_compiler
from tests.modules.gpu.tensor_core_programs import fused_dense
from tests.properties.programs import SMALL, small

pytestmark = needs_compiler

TARGET = sl.Target("cuda", arch="sm_90")
PRODUCTS = {
    "odd float16": sl.workloads.matmul(33, 47, 29, dtype="float16", out_dtype="float32"),
    "float16": sl.workloads.matmul(64, 32, 32, dtype="float16"),
    "fused dense": fused_dense(24, 32, 16),
}


@pytest.mark.parametrize("name", SMALL)
def test_samples_of_the_space_are_right(name: str) -> None:
    schedule = sl.default_space(TARGET).sample(small(name), seed=list(SMALL).index(name))
    found = sl.targets.cuda.emulate(schedule)
    assert found.verified is True and not found.faults, found.faults


@pytest.mark.slow
@pytest.mark.parametrize("way", ["wmma", "mma"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_on_tensor_cores_are_right(name: str, way: str) -> None:
    space = sl.default_space(TARGET) + sl.modules.UseTensorCore(via=(way,))
    schedule = space.sample(PRODUCTS[name], seed=1)
    assert any(intrinsic in str(schedule.mod) for intrinsic in ("wmma", "mma"))
    found = sl.targets.cuda.emulate(schedule)
    assert found.verified is True and not found.faults, found.faults
