"""Call exported libraries in a process of TileLang; a program for the Python that has TileLang.

    python beside_tilelang.py FOLDER FIRST

FOLDER has libraries, and for each the tensors that it takes and those that it should write. FIRST
says what is loaded first: ``libraries`` or ``tilelang``. Nothing of schedlang is imported.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def library_of(folder: Path, name: str) -> Callable[[], None]:
    """Load a library of C functions; return a call that checks what its function writes."""
    function = getattr(ctypes.CDLL(str(folder / f"{name}.so")), name)
    arrays = np.load(folder / f"{name}.npz")
    inputs, expected = (list(arrays[one]) for one in ("inputs", "expected"))
    given = [np.ascontiguousarray(arrays[one]) for one in inputs]
    wanted = [arrays[one] for one in expected]

    def call() -> None:
        written = [np.full_like(one, np.nan) for one in wanted]
        status = function(*(ctypes.c_void_p(one.ctypes.data) for one in (*given, *written)))
        assert status == 0, status
        for one, right in zip(written, wanted, strict=True):
            np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-5)

    return call


def tilelang_kernel() -> Callable[[], None]:
    """Compile a kernel with TileLang for the CPU; return a call that checks what it writes."""
    import tilelang
    import tilelang.language as T
    import torch

    @T.prim_func
    def increase(
        A: T.Tensor((1024,), "float32"),  # type: ignore[valid-type]
        B: T.Tensor((1024,), "float32"),  # type: ignore[valid-type]
    ):
        with T.Kernel(4) as block:
            for i in T.serial(256):
                B[block * 256 + i] = A[block * 256 + i] + 1.0

    kernel: Any = tilelang.compile(increase, target="c", execution_backend="cython")

    def call() -> None:
        a, b = torch.randn(1024), torch.empty(1024)
        kernel(a, b)
        assert torch.equal(b, a + 1)

    return call


def main(folder: Path, first: str) -> None:
    def libraries() -> list[Callable[[], None]]:
        return [library_of(folder, name) for name in ("gemm", "network")]

    if first == "libraries":
        calls = libraries()
        for call in calls:
            call()
        calls.append(tilelang_kernel())
    else:
        calls = [tilelang_kernel()]
        calls[0]()
        calls += libraries()
    for _ in range(100):
        for call in calls:
            call()
    assert "schedlang" not in sys.modules
    import tvm

    found = [f"{name} {version(name)}" for name in ("tilelang", "apache-tvm-ffi", "torch")]
    print(", ".join([*found, f"TileLang's TVM {tvm.__version__}"]))


main(Path(sys.argv[1]), sys.argv[2])
