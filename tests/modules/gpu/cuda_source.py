"""CUDA source of a program; no GPU is needed."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.target import Target


def cuda_source(mod: Any) -> str:
    """What TVM generates for an NVIDIA GPU of compute capability 8.0."""
    built = tvm.compile(mod, target=Target({"kind": "cuda", "arch": "sm_80"}, host="llvm"))
    (kernels,) = built.mod.imports
    return str(kernels.inspect_source())
