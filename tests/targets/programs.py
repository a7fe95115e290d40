"""Small programs, good and bad, for the tests of measurement."""

from __future__ import annotations

import ctypes

from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.script import from_source

from schedlang.tvm.program_text import script_names
from schedlang.workloads import from_prim_func, from_script
from schedlang.workloads.workload import Workload

N = 64


def matmul() -> Workload:
    """C = A @ B, 64 x 64 x 64 in float32."""
    a = te.placeholder((N, N), name="A")
    b = te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    c = te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return from_prim_func(te.create_prim_func([a, b, c]), name="matmul")


def scheduled_matmul(workload: Workload, tile: int = 8) -> IRModule:
    """A right schedule of ``matmul``: parallel outside, vectorised inside."""
    sch = Schedule(workload.mod)
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(i, [None, tile])
    wide, lanes = sch.split(j, [None, 16])
    sch.reorder(outer, wide, k, inner, lanes)
    sch.parallel(outer)
    sch.vectorize(lanes)
    sch.decompose_reduction(block, k)
    return sch.mod


def _first_number(seed: int) -> int:
    """Return what the C library's ``rand`` gives first with a seed."""
    library = ctypes.CDLL(None)
    library.srand(seed)
    return int(library.rand())


def from_body(body: str, signature: str = "") -> IRModule:
    """A module whose ``main`` takes the matmul's tensors and runs ``body`` (not indented)."""
    tensors = ", ".join(f'{name}: T.Buffer(({N}, {N}), "float32")' for name in "ABC")
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    text = (
        "@T.prim_func(s_tir=True)\n"
        f"def main({signature or tensors}):\n"
        '    T.func_attr({"global_symbol": "main", "tirx.noalias": True})\n'
        f"{lines}\n"
    )
    return IRModule({"main": from_source(text, script_names(), check_well_formed=False)})


def matmul_body(update: str) -> str:
    """The matmul's loops around another update of ``C``, for ``from_body``."""
    return f"""
for i, j, k in T.grid({N}, {N}, {N}):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        {update}
"""


def matmul_variant(update: str) -> IRModule:
    """The matmul's loops around another update of ``C``."""
    return from_body(matmul_body(update))


# Other numbers at every call, from the C library.
RANDOM = """
for i, j in T.grid(64, 64):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.Cast("float32", T.call_extern("int32", "rand"))
"""
ABORT = "T.evaluate(T.call_extern('int32', 'abort'))"
SLEEP = "T.evaluate(T.call_extern('int32', 'sleep', 1000))"
# Leaves a mark where only the C library sees it, in what ``rand`` gives, and the other one dies
# where it finds it.
MARK = "T.evaluate(T.call_extern('int32', 'srand', 511))"
DIE_IF_MARKED = f"""
if T.call_extern("int32", "rand") == {_first_number(511)}:
    T.evaluate(T.call_extern("int32", "abort"))
"""
# Another program, which leaves the worker's session.
START_DAEMON = "T.evaluate(T.call_extern('int32', 'system', 'setsid sleep 1000 &'))\n"
# 15 copies of the worker at the first call, and a right product at each.
COPIES = """
if T.call_extern("int32", "umask", 511) != 511:
    for i in range(4):
        T.evaluate({fork})
for i, j, k in T.grid(64, 64, 64):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
FLOOD = """
for i in range(20000):
    T.evaluate(T.call_extern("int32", "dprintf", 2, "flood\\n"))
T.evaluate(T.call_extern("int32", "abort"))
"""
PRINT = """
for i in range(100):
    T.evaluate(T.call_extern("int32", "dprintf", 1, "noise\\n"))
"""
# Needs a GPU's thread blocks: TVM refuses it on a CPU.
UNBUILDABLE = (
    "T.evaluate(T.tvm_thread_allreduce(T.uint32(1), T.float32(0), True, C.data, 0, dtype='void'))"
)
ENDLESS_UNROLL = """
for i in T.unroll(64):
    for j in T.unroll(64):
        for k in T.unroll(64):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.exp(A[vi, vk] * B[vk, vj])
"""
HUGE_BUFFER = """
with T.sblock("root"):
    W = T.sblock_alloc_buffer((1 << 28, 4), "float32")
    for i, j in T.grid(1 << 28, 4):
        with T.sblock("W"):
            vi, vj = T.axis.remap("SS", [i, j])
            W[vi, vj] = A[vi % 64, vj]
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = W[vi * vj, vj % 4]
"""


def indexed(value: str) -> Workload:
    """A program of index arguments ``p`` and ``q``: ``value`` for each of 12 rows."""
    return from_script(f"""
@T.prim_func(s_tir=True)
def f(
    p: T.Buffer((12,), "int32"), q: T.Buffer((12,), "int32"), table: T.Buffer((900, 4), "float32"),
    out: T.Buffer((12,), "float32"),
):
    for i in range(12):
        with T.sblock("out"):
            v = T.axis.spatial(12, i)
            out[v] = {value}
""")


# They crash on random inputs: a range cannot be read off a shift.
DIVISION = "T.Cast('float32', q[v] // T.shift_right(p[v], 8)) + table[q[v], 0]"
FAR = "table[T.shift_left(p[v] + 1, 24) + q[v], 0]"


def sleeping(microseconds: int) -> Workload:
    """A copy of a column that sleeps so long 64 times, however fast the machine is."""
    body = f"""
for i in T.serial(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.reads(A[vi, 0])
        T.writes(C[vi, 0:64])
        T.evaluate(T.call_extern("int32", "usleep", {microseconds}))
        for j in T.serial(64):
            C[vi, j] = A[vi, 0]
"""
    return from_prim_func(from_body(body)["main"], name="sleeps")
