"""Threads that import and compile networks at the same time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tvm import relax

import schedlang as sl
from tests.networks.compiled.relax_networks import OP, module, tensor


@pytest.fixture
def switched() -> Iterator[None]:
    """Threads that take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switched")
def test_each_thread_has_its_own_network() -> None:
    """TVM keeps the functions that are being built in one list for all threads."""
    x = tensor(4, 8)

    def of_number(number: int) -> Any:
        def compute(given: Any) -> Any:
            for k in range(12):
                given = OP.nn.relu(OP.add(given, relax.const(float(number + k), "float32")))
            return [given]

        return module([("x", x.shape, "float32")], compute)

    def run(mod: Any) -> Any:
        return sl.compile_network(sl.import_network(mod), progress=False)(x)

    modules = [*map(of_number, range(24))]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, modules))
    for number, one in enumerate(found):
        expected = np.maximum(x + number, 0) + sum(number + k for k in range(1, 12))
        np.testing.assert_allclose(one, expected, rtol=1e-6)
