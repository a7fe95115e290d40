"""Machine code for programs that are built or loaded in this process."""

from __future__ import annotations

from schedlang.targets.cuda import nvcc
from schedlang.tvm.codegen import device as devices


def compile_with_nvcc(arch: str) -> None:
    """Have TVM compile CUDA C++ for ``arch`` with nvcc, where it finds a GPU.

    By itself it takes a library that few machines have. Where it finds no GPU, libraries hold the
    source, which is compiled when it is loaded.
    """
    devices.provide_cubins(lambda source: nvcc.compile_cubin(source, arch).code)
