"""Measure this machine's float32 arithmetic peak: multiply-adds that stay in registers.

A loop built through TVM updates independent vector accumulators, ``sum = sum * factor + term``.
There are enough of them to hide the latency of a multiply-add, and few enough to fit the registers.
The machine code is checked before timing: the loop must hold one multiply-add for each accumulator,
on full vectors, and no memory access.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from schedlang.targets.cpu.rates.rate import compile_text, times, use_threads
from schedlang.targets.cpu.target import CPUTarget
from schedlang.targets.measure.timing import TimingPolicy

# A multiply-add has a latency of 4 cycles and at most two start in each: 8 hide it. With the two
# operands 12 still fit the 16 vector registers of AVX2.
ACCUMULATORS = 12
# A call lasts milliseconds; launching its threads, microseconds.
STEPS = 1 << 20

# Different initial values keep the compiler from merging the accumulators.
_PROGRAM = """
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
    text = _PROGRAM.format(
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
