"""A scheduled program computes what the unscheduled one computes, compiled for this CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from schedlang.workloads.workload import Workload
from tests.language.primitives.case import Case, scheduled
from tests.language.primitives.groups import each_case


def computed(mod: Any, workload: Workload) -> list[np.ndarray]:
    """All arguments of one call after it: inputs are drawn, outputs start as 77."""
    rng = np.random.default_rng(0)
    arrays = []
    for arg in workload.args:
        if arg.role == "output":
            values = np.full(arg.shape, 77)
        elif arg.dtype.startswith("float"):
            values = rng.uniform(-1, 1, arg.shape)
        else:
            values = rng.integers(0, 16, arg.shape)
        arrays.append(tvm.runtime.tensor(values.astype(arg.dtype)))
    tvm.compile(mod, target="llvm")["main"](*arrays)
    return [array.numpy() for array in arrays]


@functools.cache
def unscheduled(make: Callable[[], Workload]) -> list[np.ndarray]:
    """What the workload itself computes."""
    return computed(make().mod, make())


@pytest.mark.slow
@each_case
def test_the_numbers_stay(case: Case) -> None:
    if case.not_run:
        pytest.skip(case.not_run)
    found = computed(scheduled(case).mod, case.workload())
    for now, before in zip(found, unscheduled(case.workload), strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-5, atol=1e-5)
