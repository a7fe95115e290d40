"""What the CPU of this machine reaches, as measured: arithmetic, and copies of memory.

``sampled_peak`` is the float32 peak: multiply-adds that stay in registers. A loop built through TVM
updates independent vector accumulators, ``sum = sum * factor + term``. There are enough of them to
hide the latency of a multiply-add, and few enough to fit the registers. The machine code is checked
before timing: the loop must hold one multiply-add for each accumulator, on full vectors, and no
memory access. ``measured_copy`` is the rate of memory: copies of large arrays.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang import host
from schedlang.errors import SchedlangError
from schedlang.targets.cpu.target import CPUTarget
from schedlang.targets.measure.timing import TimingPolicy, collect
from schedlang.tvm import codegen, program
from schedlang.tvm.codegen import runtime

# -- Arithmetic -----------------------------------------------------------------------------------

# A multiply-add has a latency of 4 cycles and at most two start in each: 8 hide it. With the two
# operands 12 still fit the 16 vector registers of AVX2.
ACCUMULATORS = 12
# A call lasts milliseconds; launching its threads, microseconds.
STEPS = 1 << 20

# Different initial values keep the compiler from merging the accumulators.
_MULTIPLY_ADDS = """
@T.prim_func(s_tir=True)
def main(
    factor: T.Buffer(({lanes},), "float32"),
    term: T.Buffer(({lanes},), "float32"),
    out: T.Buffer(({threads}, {accumulators}, {lanes}), "float32"),
):
    T.func_attr({{"tirx.noalias": True}})
    for thread in T.{kind}({threads}):
        sums = T.alloc_buffer(({accumulators}, {lanes}), "float32", scope="local")
        for i in T.unroll({accumulators}):
            for lane in T.vectorized({lanes}):
                sums[i, lane] = term[lane] + T.cast(i, "float32")
        for step in range({steps}):
            for i in T.unroll({accumulators}):
                for lane in T.vectorized({lanes}):
                    sums[i, lane] = sums[i, lane] * factor[lane] + term[lane]
        for i in T.unroll({accumulators}):
            for lane in T.vectorized({lanes}):
                out[thread, i, lane] = sums[i, lane]
"""

_MULTIPLY_ADD = re.compile(r"(vfmadd\w*ps|fmla)\b")
_JUMP = re.compile(r"(j\w+|b(\.\w+)?|cbn?z|tbn?z|retq?)\b")
_REGISTERS = {512: "zmm", 256: "ymm", 128: "xmm"}


def sampled_peak(threads: int, policy: TimingPolicy) -> Sequence[float]:
    """Return the float32 operations per second that ``threads`` threads reach in each sample.

    The fastest sample is the peak, because noise only slows them down. Raises ValueError for more
    threads than cores, and RuntimeError when the machine code is not what it should be.
    """
    target = CPUTarget()
    use_threads(target, threads)
    lanes = target.vector_bits // 32
    executable = compile_loop(target, threads)
    check_machine_code(executable.mod.inspect_source("asm"), target.vector_bits)
    # The sums approach 2: no denormal number, and no infinity, slows anything down.
    arguments = (((lanes,), 0.5), ((lanes,), 1.0), ((threads, ACCUMULATORS, lanes), 0.0))
    operations = 2 * threads * ACCUMULATORS * lanes * STEPS
    return [operations / seconds for seconds in times(executable, arguments, policy)]


def compile_loop(target: CPUTarget, threads: int) -> Any:
    """The loop as an executable for ``target``."""
    text = _MULTIPLY_ADDS.format(
        lanes=target.vector_bits // 32,
        threads=threads,
        accumulators=ACCUMULATORS,
        steps=STEPS,
        kind="parallel" if threads > 1 else "serial",
    )
    return compile_text(text, target)


def check_machine_code(assembly: str, vector_bits: int) -> None:
    """Raise RuntimeError unless a loop only multiplies and adds registers of that width.

    LLVM may unroll it further: it then holds a multiple of ``ACCUMULATORS`` multiply-adds.
    """
    loop = innermost_loop(assembly)
    steps = [line for line in loop if _MULTIPLY_ADD.match(line)]
    if not steps or len(steps) % ACCUMULATORS:
        raise RuntimeError(
            f"the loop has {len(steps)} multiply-adds, and not a multiple of {ACCUMULATORS}:\n"
            + "\n".join(loop)
        )
    touching = [line for line in loop if "(" in line or "[" in line]
    if touching:
        raise RuntimeError("the loop touches memory:\n" + "\n".join(touching))
    if steps[0].split()[0] != "fmla":
        narrow = [line for line in steps if line.count(f"%{_REGISTERS[vector_bits]}") != 3]
        if narrow:
            raise RuntimeError(
                f"multiply-adds that are not of {vector_bits} bits:\n" + "\n".join(narrow)
            )


def innermost_loop(assembly: str) -> list[str]:
    """The instructions of the basic block with the most multiply-adds."""
    blocks: list[list[str]] = [[]]
    for line in assembly.splitlines():
        code = line.split("#")[0].split("//")[0].strip()
        if re.match(r"[.\w]+:", code):
            blocks.append([])
        elif code and not code.startswith("."):
            blocks[-1].append(code)
            if _JUMP.match(code):
                blocks.append([])
    return max(blocks, key=lambda block: sum(bool(_MULTIPLY_ADD.match(line)) for line in block))


# -- Memory ---------------------------------------------------------------------------------------

# Each array is this many times the last cache, and between these numbers of bytes.
_TIMES_CACHE = 4
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30
# Part of the free memory that both arrays may take.
_PART = 0.25
_POLICY = TimingPolicy(min_sample_seconds=0.01, min_repeats=10, max_repeats=40, budget_seconds=2.0)

_COPY = """
@T.prim_func(s_tir=True)
def main(
    source: T.Buffer(({threads}, {vectors}, {lanes}), "float32"),
    out: T.Buffer(({threads}, {vectors}, {lanes}), "float32"),
):
    T.func_attr({{"tirx.noalias": True}})
    for thread in T.{kind}({threads}):
        for vector in range({vectors}):
            for lane in T.vectorized({lanes}):
                out[thread, vector, lane] = source[thread, vector, lane]
"""


def measured_copy(threads: int | None = None) -> float:
    """Return the bytes that ``threads`` threads copy in a second; all cores by default.

    Each byte counts twice, as it is read and written. It is the fastest of several samples.
    ValueError for more threads than cores, SchedlangError where memory is short.
    """
    target = CPUTarget()
    threads = use_threads(target, threads)
    size = min(max(_TIMES_CACHE * target.l3_bytes, _LEAST_BYTES), _MOST_BYTES)
    free = host.available_memory()
    if free is not None:
        size = min(size, int(_PART * free / 2))
    if size < _TIMES_CACHE * target.l2_bytes:
        raise SchedlangError(f"too little memory is free to measure its rate: {free} bytes")
    lanes = target.vector_bits // 32
    vectors = size // (4 * lanes * threads)
    kind = "parallel" if threads > 1 else "serial"
    text = _COPY.format(threads=threads, vectors=vectors, lanes=lanes, kind=kind)
    shape = (threads, vectors, lanes)
    moved = 2 * 4 * threads * vectors * lanes
    arguments = ((shape, 1.0), (shape, 0.0))
    return moved / min(times(compile_text(text, target), arguments, _POLICY))


# -- Times of a synthetic program -----------------------------------------------------------------


def use_threads(target: CPUTarget, threads: int | None) -> int:
    """Set TVM's number of threads, all cores by default; ValueError for more than cores."""
    threads = target.cores if threads is None else threads
    if not 1 <= threads <= target.cores:
        raise ValueError(f"threads={threads}: give 1 to {target.cores}, the cores there are")
    os.environ.setdefault("TVM_NUM_THREADS", str(target.cores))
    runtime.configure_threads(target.cpus)
    return threads


def compile_text(text: str, target: CPUTarget) -> Any:
    """Compile a program in TVMScript for ``target``."""
    module = program.as_main(program.parse_script(text))
    return codegen.compile_program(module, target.tvm_target(), check_arguments=False)


def times(
    executable: Any, arguments: Sequence[tuple[tuple[int, ...], float]], policy: TimingPolicy
) -> Sequence[float]:
    """Return seconds per call, one for each sample.

    ``arguments`` are the shapes and fill values of float32 tensors.
    """
    entry = codegen.load_code(executable)
    tensors = [runtime.empty_tensor(shape, "float32") for shape, _ in arguments]
    for tensor, (shape, value) in zip(tensors, arguments, strict=True):
        tensor.copyfrom(np.full(shape, value, "float32"))

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            entry(*tensors)
        return (time.perf_counter() - start) / calls

    return collect(run, policy).samples
