"""Small programs for a GPU, good and bad."""

from __future__ import annotations

from tvm.ir import IRModule
from tvm.s_tir import Schedule

from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets.programs import N, from_body, matmul_variant

THREADS = 128
TERMS = 64
SUMS = (
    f'x: T.Buffer(({TERMS},), "int32"), a: T.Buffer(({TERMS},), "float32"), '
    'c: T.Buffer((100000,), "float32")'
)


def bound(mod: IRModule, threads: int = THREADS) -> IRModule:
    """Bind the outer two loops of the only block to blocks and threads."""
    sch = Schedule(mod)
    loops = sch.get_loops(sch.get_sblock("C"))
    outer, inner = sch.split(sch.fuse(*loops[:2]), [None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return sch.mod


def bound_matmul(workload: Workload, threads: int = THREADS) -> IRModule:
    """A right schedule of ``programs.matmul``."""
    return bound(workload.mod, threads)


def wrong_matmul() -> IRModule:
    """A product with a transposed operand."""
    return bound(matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"))


def matmul_with(extra: str, on_host: str = "") -> IRModule:
    """A right product, and ``extra`` statements in each thread before its element is written.

    The statements ``on_host`` run before, on the CPU.
    """
    return from_body(
        f"""
{on_host}
for b in T.thread_binding({N * N // THREADS}, thread="blockIdx.x"):
    for t in T.thread_binding({THREADS}, thread="threadIdx.x"):
        with T.sblock("C"):
            vi = T.axis.spatial({N}, (b * {THREADS} + t) // {N})
            vj = T.axis.spatial({N}, (b * {THREADS} + t) % {N})
            T.reads(A[vi, 0:{N}], B[0:{N}, vj])
            T.writes(C[vi, vj])
            C[vi, vj] = T.float32(0)
            {extra}
            for k in range({N}):
                C[vi, vj] = C[vi, vj] + A[vi, k] * B[k, vj]
"""
    )


def leaves_its_process_rounding(upwards: int) -> IRModule:
    """A right product whose part on the CPU sets the rounding mode."""
    return matmul_with("", f'T.evaluate(T.call_extern("int32", "fesetround", {upwards}))')


def sums_by_index() -> IRModule:
    """Sums by index, each thread with a term of its own."""
    return from_body(
        f"""
for b in T.thread_binding({TERMS // 32}, thread="blockIdx.x"):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.sblock("sum"):
            vk = T.axis.opaque({TERMS}, b * 32 + t)
            c[x[vk]] = c[x[vk]] + a[vk]
""",
        SUMS,
    )


def unscheduled_sums_by_index() -> Workload:
    """The workload of ``sums_by_index``."""
    text = f"""
for k in range({TERMS}):
    with T.sblock("sum"):
        vk = T.axis.opaque({TERMS}, k)
        c[x[vk]] = c[x[vk]] + a[vk]
"""
    return from_prim_func(from_body(text, SUMS)["main"], name="sums by index")


def writes_behind() -> IRModule:
    """A right product that also writes 64 elements behind its output."""
    return matmul_with(f"C[vi + {N + 1}, vj] = T.float32(1)")


def writes_far_away() -> IRModule:
    """A product that writes 16 TB behind its output: an illegal access."""
    return matmul_with(f"C[vi + {1 << 36}, vj] = T.float32(1)")


def never_ends() -> IRModule:
    """A product that takes hours."""
    return matmul_with(f"for n in range({1 << 42}): C[vi, vj] = C[vi, vj] * T.float32(0.5) + 1")


def stale_matmul() -> IRModule:
    """Uses an intermediate result before it is computed: right where an earlier call left it."""
    return from_body(
        f"""
W = T.sblock_alloc_buffer(({N}, {N}), "float32")
for b in T.thread_binding({N}, thread="blockIdx.x"):
    for t in T.thread_binding({N}, thread="threadIdx.x"):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [b, t])
            C[vi, vj] = W[vi, vj]
for b in T.thread_binding({N}, thread="blockIdx.x"):
    for t in T.thread_binding({N}, thread="threadIdx.x"):
        for k in range({N}):
            with T.sblock("W"):
                vi, vj, vk = T.axis.remap("SSR", [b, t, k])
                with T.init():
                    W[vi, vj] = T.float32(0)
                W[vi, vj] = W[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    )
