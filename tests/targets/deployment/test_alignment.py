"""Arrays that start anywhere: compiled code must not load vectors as if they were aligned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schedlang.targets import Target
from schedlang.tvm.codegen import compile_program
from tests.targets.programs import matmul, scheduled_matmul

# Multiples of 4 and 16 bytes, and of no element; for the callable, sl.load and plain TVM.
CALL_UNALIGNED = """
import sys
import numpy as np, tvm, tvm_ffi
import schedlang as sl
from schedlang.targets import build_callable
from tests.targets.programs import matmul, scheduled_matmul

def at(offset, array):
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    placed = np.ndarray(array.shape, array.dtype, memory, start)
    placed[...] = array
    assert placed.ctypes.data % 64 == offset
    return placed

path = sys.argv[1]
plain = tvm.runtime.load_module(path)["main"]
callers = {
    "build": build_callable(scheduled_matmul(matmul())),
    "sl.load": sl.load(path),
    "TVM": plain,
    "TVM's tensors": lambda *arrays: plain(*map(tvm_ffi.from_dlpack, arrays)),
}
a, b = (np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype("float32") for _ in "ab")
for name, call in callers.items():
    for offsets in ((4, 4, 4), (16, 16, 16), (16, 32, 48), (34, 0, 0), (0, 34, 0), (0, 0, 34)):
        x, y, out = map(at, offsets, (a, b, np.zeros_like(a)))
        call(x, y, out)
        np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
    print(name)
"""


def test_arrays_may_start_anywhere(run_script: Callable[..., str], library: Path) -> None:
    printed = run_script(CALL_UNALIGNED, library)
    assert printed.split("\n") == ["build", "sl.load", "TVM", "TVM's tensors", ""]


@pytest.mark.parametrize("check_arguments", [True, False])
def test_measured_code_assumes_as_little_as_deployed_code(check_arguments: bool) -> None:
    """Measured is compiled without the checks: an assumption there would be a faster kernel."""
    target = Target("cpu").tvm_target()
    mod = scheduled_matmul(matmul())
    code = compile_program(mod, target, check_arguments=check_arguments).mod.inspect_source("ll")
    assert '"align"(ptr' not in code
    assert " noalias align 64 " not in code


def test_the_assumption_that_is_taken_away_is_there() -> None:
    """TVM's own pipeline makes it; if that ends, ``codegen/alignment.py`` can go."""
    import tvm

    code = tvm.compile(scheduled_matmul(matmul()), target=Target("cpu").tvm_target())
    assert '"align"(ptr' in code.mod.inspect_source("ll")
