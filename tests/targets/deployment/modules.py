"""Modules to compile: several functions, several types, sizes that are not fixed."""

from __future__ import annotations

from tvm.ir import IRModule
from tvm.script import from_source

SEVERAL = """
@I.ir_module(s_tir=True)
class Module:
    @T.prim_func(s_tir=True)
    def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)

    @T.prim_func(s_tir=True)
    def add_to(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.parallel(8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = B[vi] + A[vi]
"""

ANY_LENGTH = """
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle, shift: T.float32):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + shift
"""

COPY = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer({shape}, "{dtype}"), B: T.Buffer({shape}, "{dtype}")):
    T.func_attr({{"global_symbol": "main", "tirx.noalias": True}})
    for i in T.vectorized({extent}):
        with T.sblock("B"):
            vi = T.axis.spatial({extent}, i)
            B[{index}] = A[{index}]
"""


def several() -> IRModule:
    """``twice(A, B)`` and ``add_to(A, B)``, and no ``main``."""
    return from_source(SEVERAL)


def any_length() -> IRModule:
    """``B = A + shift`` for tensors of n rows, and a number."""
    return IRModule({"main": from_source(ANY_LENGTH)})


def copy(dtype: str, extent: int = 64, *, scalar: bool = False) -> IRModule:
    """``B = A`` in one vector, or of a tensor without axes."""
    parts = {"shape": "()", "index": "()"} if scalar else {"shape": f"({extent},)", "index": "vi"}
    text = COPY.format(dtype=dtype, extent=1 if scalar else extent, **parts)
    return IRModule({"main": from_source(text)})


def shuffle(dtype: str = "float32") -> IRModule:
    """``B = A`` from the last element to the first."""
    text = COPY.format(dtype=dtype, extent=64, shape="(64,)", index="vi")
    return IRModule({"main": from_source(text.replace("A[vi]", "A[63 - vi]"))})


TWO_OUTPUTS = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + T.float32(1)
"""


def two_outputs() -> IRModule:
    """``B = A; C = A + 1``."""
    return IRModule({"main": from_source(TWO_OUTPUTS)})
