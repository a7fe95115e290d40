"""Candidates that misbehave, and the expected status of each."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.ir import IRModule

from schedlang.measurement import Status
from tests.targets.programs import (
    ABORT,
    SLEEP,
    START_DAEMON,
    UNBUILDABLE,
    from_body,
    matmul_body,
)


@dataclass(frozen=True)
class Fault:
    """A bad candidate, its status, and a pattern that its one-line message matches.

    The candidate is parsed when it is asked for: each process of a parallel test run imports this.
    """

    body: str
    status: Status
    message: str

    @property
    def module(self) -> IRModule:
        """Return the candidate."""
        return from_body(self.body)


def _extern(call: str) -> str:
    return f"T.evaluate(T.call_extern('int32', {call}))"


SPIN = """
while T.call_extern("int32", "sched_yield") == 0:
    T.evaluate(0)
"""
FAR_STORE = """
for i in T.serial(64):
    C[T.int64(1) << T.int64(40), i] = T.float32(1)
"""
ONE_ROW_TOO_MANY = """
for i, j, k in T.grid(65, 64, 64):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi % 64, vk] * B[vk, vj]
"""
ONE_ROW_TOO_EARLY = """
for i, j in T.grid(65, 64):
    C[i - 1, j] = A[(i + 63) % 64, j]
"""
# The system's own malloc keeps what the process needs; this asks for 4 GiB at once, as a candidate
# with a huge cache does.
HUGE_CACHE = """
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
# TVM's pass that unrolls makes 16 million statements of it; LLVM takes minutes for the next one.
UNROLLED_INTO_MEMORY = """
for i in T.unroll(1 << 24):
    C[i % 64, i // 64 % 64] = T.exp(A[i % 64, i // 64 % 64] + T.Cast("float32", i))
"""
UNROLLED_FOR_MINUTES = """
for i in T.unroll(64):
    for j in T.unroll(64):
        for k in T.unroll(16):
            C[i, j] = C[i, j] + T.exp(A[i, k] * B[k, j])
"""
# 1600 lines of 64 KiB each.
FLOOD = """
for i in range(1600):
    T.evaluate(T.call_extern("int32", "dprintf", 2, "%065535d\\n", i))
"""
FLOOD_AND_ABORT = FLOOD + ABORT
NOISE_TO_THE_PARENT = """
for i in range(100):
    T.evaluate(T.call_extern("int32", "dprintf", 4, "this is no message\\n"))
"""
# 1.2 MB are 4,688 rows.
FAR_OVERRUN = """
for i in T.serial(64):
    C[64 + 4688, i] = T.float32(1)
"""
FAR_UNDERRUN = """
for i in T.serial(64):
    C[-4688, i] = T.float32(1)
"""
RIGHT = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"

FAULTS = {
    "segfault": Fault(FAR_STORE, Status.CRASHED, "ended with SIGSEGV"),
    "abort": Fault(ABORT, Status.CRASHED, "ended with SIGABRT"),
    "division": Fault(_extern("'raise', 8"), Status.CRASHED, "ended with SIGFPE"),
    "exit": Fault(_extern("'_exit', 0"), Status.CRASHED, "ended with exit status 0"),
    "sleeps": Fault(SLEEP, Status.RUN_TIMEOUT, "not done within 2 s"),
    "spins": Fault(SPIN, Status.RUN_TIMEOUT, "not done within 2 s"),
    "stops itself": Fault(_extern("'raise', 19"), Status.RUN_TIMEOUT, "not done within 2 s"),
    "escaped child": Fault(START_DAEMON + SLEEP, Status.RUN_TIMEOUT, "not done within 2 s"),
    "child of a crash": Fault(START_DAEMON + ABORT, Status.CRASHED, "ended with SIGABRT"),
    "other programs": Fault(
        START_DAEMON, Status.RUN_ERROR, r"started (another process|\d+ other processes)"
    ),
    "copies": Fault(_extern("'fork'"), Status.RUN_ERROR, r"started (another|\d+ other) process"),
    "unknown function": Fault(
        "T.evaluate(T.call_packed('no.such.function', 1))",
        Status.RUN_ERROR,
        "Cannot find function no.such.function",
    ),
    "refused by TVM": Fault(UNBUILDABLE, Status.BUILD_ERROR, "reduce_combiner"),
    "endless build": Fault(UNROLLED_FOR_MINUTES, Status.BUILD_TIMEOUT, "not done within 6 s"),
    "memory while building": Fault(
        UNROLLED_INTO_MEMORY, Status.OUT_OF_MEMORY, "bad_alloc|ran out of memory"
    ),
    "memory while running": Fault(HUGE_CACHE, Status.OUT_OF_MEMORY, "."),
    "flood": Fault(FLOOD, Status.WRONG_RESULT, "not written, or not a number"),
    "flood and abort": Fault(FLOOD_AND_ABORT, Status.CRASHED, "ended with SIGABRT"),
    "noise to the parent": Fault(
        NOISE_TO_THE_PARENT, Status.CRASHED, "closed the worker's pipes or wrote to them"
    ),
    "wrong numbers": Fault(
        matmul_body("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"),
        Status.WRONG_RESULT,
        r"\d{4} of 4096 elements differ",  # by chance, some are right
    ),
    "one wrong element": Fault(
        matmul_body(f"{RIGHT} + T.if_then_else(vi * vj == 3969, T.float32(1), T.float32(0))"),
        Status.WRONG_RESULT,
        r"1 of 4096 elements differ; at \[63, 63\]",
    ),
    "not a number": Fault(
        matmul_body("C[vi, vj] = T.log(T.float32(-1) - B[vk, vj] * B[vk, vj])"),
        Status.WRONG_RESULT,
        "got nan",
    ),
    "does nothing": Fault("T.evaluate(0)", Status.WRONG_RESULT, "not written"),
    "changes an input": Fault(
        matmul_body(f"{RIGHT}\n        A[vi, vk] = A[vi, vk] + T.float32(1)"),
        Status.WRONG_RESULT,
        "argument 0 is an input",
    ),
    "one row too many": Fault(
        ONE_ROW_TOO_MANY, Status.CRASHED, "SIGSEGV: it read or wrote outside its memory"
    ),
    "one row too early": Fault(
        ONE_ROW_TOO_EARLY, Status.WRONG_RESULT, "writes right before .* argument 2"
    ),
    "rows too many": Fault(FAR_OVERRUN, Status.CRASHED, "it read or wrote outside"),
    "rows too early": Fault(FAR_UNDERRUN, Status.CRASHED, "it read or wrote outside"),
}
