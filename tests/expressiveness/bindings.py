"""Programs with blocks whose variables are not the loops around them: a constant, or a quotient."""

from __future__ import annotations

from collections.abc import Callable

from tvm import te

from schedlang.workloads import from_script, from_te
from schedlang.workloads.workload import Workload

_N = 128


def scaled_product() -> Workload:
    """A scalar intermediate, for which TE makes a block with a variable bound to 0."""
    s, a, b = (te.placeholder(shape, name=name) for name, shape in _operands())
    factor = te.compute((), lambda: s() * 2.0, "factor")
    k = te.reduce_axis((0, _N), "k")
    out = te.compute((_N, _N), lambda i, j: te.sum(a[i, k] * factor() * b[k, j], k), "c")
    return from_te([s, a, b, out])


def _operands() -> list[tuple[str, tuple[int, ...]]]:
    return [("s", ()), ("a", (_N, _N)), ("b", (_N, _N))]


def _before_a_product(rows: int, loops: str, row: str, column: str) -> Workload:
    """B = A * 2, whose block has the given loops and variables, then C = B x W."""
    read = "vi" if rows > 1 else "0"
    return from_script(
        f"""
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer(({rows}, {_N}), 'float32'),
    W: T.Buffer(({_N}, {_N}), 'float32'),
    C: T.Buffer(({_N}, {_N}), 'float32'),
):
    B = T.sblock_alloc_buffer(({rows}, {_N}), 'float32')
    for {loops}:
        with T.sblock("B"):
            vi = T.axis.spatial({rows}, {row})
            vk = T.axis.spatial({_N}, {column})
            B[vi, vk] = A[vi, vk] * T.float32(2)
    for i, j, k in T.grid({_N}, {_N}, {_N}):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[{read}, vk] * W[vk, vj]
"""
    )


BINDINGS: dict[str, Callable[[], Workload]] = {
    "scalar": scaled_product,
    "unit axis": lambda: _before_a_product(1, f"k in range({_N})", "0", "k"),
    "fused loops": lambda: _before_a_product(
        _N, f"f in range({_N * _N})", f"f // {_N}", f"f % {_N}"
    ),
    "split loops": lambda: _before_a_product(
        _N, f"k0, i, k1 in T.grid(2, {_N}, {_N // 2})", "i", f"k0 * {_N // 2} + k1"
    ),
}
