"""The same small programs as users write them: TVMScript, its text, Relax, and TE.

Run as a program, it prints what a fresh process finds for each: ``kind latency`` a line.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from tvm import relax, te
from tvm.script import ir as I, relax as R, tirx as T

import schedlang as sl

N = 48


@T.prim_func(s_tir=True)
def scale(a: T.Buffer((N, N), "float32"), b: T.Buffer((N, N), "float32")):  # type: ignore[no-untyped-def]
    """Scales rows through an intermediate buffer, with attributes as users write them."""
    T.func_attr({"global_symbol": "scale", "tirx.noalias": True, "note": "mine"})
    c = T.sblock_alloc_buffer((N, N))
    for i, j in T.grid(N, N):
        with T.sblock("twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.sblock_attr({"mine": 1})
            c[vi, vj] = a[vi, vj] * T.float32(2)
    for i, j in T.grid(N, N):
        with T.sblock("shifted"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = T.max(c[vi, vj], T.float32(-1)) + T.Cast("float32", vi)


TEXT = f"""
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def row_sums(a: T.Buffer(({N}, {N}), "float32"), b: T.Buffer(({N},), "float32")):
        for i, k in T.grid({N}, {N}):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    b[vi] = T.float32(0)
                b[vi] = b[vi] + a[vi, vk]
"""


@I.ir_module
class Model:
    """A product with a relu fused into it."""

    @R.function
    def main(  # type: ignore[no-untyped-def]
        x: R.Tensor((N, N), "float32"), w: R.Tensor((N, N), "float32")
    ) -> R.Tensor((N, N), "float32"):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y


def from_relax() -> sl.Workload:
    """The fused function of the model."""
    with sl.Target("cpu").tvm_target():
        mod = relax.get_pipeline("zero")(Model)
    return sl.workloads.from_module(mod, function="fused_matmul_relu")


def added(*, subtract: bool = False) -> list[te.Tensor]:
    """A sum of two matrices, or their difference."""
    a, b = (te.placeholder((N, N), "float32", name) for name in "ab")
    if subtract:
        return [a, b, te.compute((N, N), lambda i, j: a[i, j] - b[i, j])]
    return [a, b, te.compute((N, N), lambda i, j: a[i, j] + b[i, j])]


PROGRAMS: dict[str, Callable[[], sl.Workload]] = {
    "tvmscript": lambda: sl.workloads.from_prim_func(scale),
    "from_script": lambda: sl.workloads.from_script(TEXT),
    "relax": from_relax,
    "te": lambda: sl.workloads.from_te(added()),
}


if __name__ == "__main__":
    warnings.simplefilter("error")
    for make in PROGRAMS.values():
        found = sl.best(make(), "cpu", sys.argv[1], similar=False)
        print(None if found is None else f"{found.kind} {found.latency!r}")
