"""Measure this machine's float32 arithmetic peak: multiply-adds that stay in registers.

A loop built through TVM updates independent vector accumulators, ``sum = sum * factor + term``.
There are enough of them to hide the latency of a multiply-add, and few enough to fit the registers.
The machine code is checked before timing: the loop must hold one multiply-add for each accumulator,
on full vectors, and no memory access. For comparison, ``_fed_peak.py`` measures multiply-adds that
read their operands from the L1 cache, as a matrix product does.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from _fed_peak import fed_peak
from _rate import best_rate, compile_text, use_threads

import schedlang as sl
from schedlang.targets.measure.timing import TimingPolicy

# A multiply-add has a latency of 4 cycles and at most two start in each: 8 hide it. With the two
# operands 12 still fit the 16 vector registers of AVX2.
ACCUMULATORS = 12
# A call lasts milliseconds; launching its threads, microseconds.
STEPS = 1 << 20
# Many short samples: other processes disturb only some of them.
POLICY = TimingPolicy(min_sample_seconds=0.01, min_repeats=100, max_repeats=100, budget_seconds=3.0)

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


def measured_peak(threads: int | None = None) -> float:
    """Return the peak float32 operations per second of ``threads`` threads; all cores by default.

    It is the fastest of several samples, because noise only slows them down. Raises ValueError
    for more threads than cores, and RuntimeError when the machine code is not what it should be.
    """
    target = sl.Target("cpu")
    threads = use_threads(target, threads)
    lanes = target.vector_bits // 32
    executable = compile_loop(target, threads)
    check_machine_code(executable.mod.inspect_source("asm"), target.vector_bits)
    # The sums approach 2: no denormal number, and no infinity, slows anything down.
    arguments = (((lanes,), 0.5), ((lanes,), 1.0), ((threads, ACCUMULATORS, lanes), 0.0))
    operations = 2 * threads * ACCUMULATORS * lanes * STEPS
    return best_rate(executable, arguments, operations, POLICY)


def compile_loop(target: sl.Target, threads: int) -> Any:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no effect: a run takes seconds")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    target = sl.Target("cpu")
    rows = []
    print("threads  GFLOPS  a thread  fed from L1")
    for threads in sorted({1, target.cores}):
        peak, fed = measured_peak(threads), fed_peak(threads)
        rows.append({"threads": threads, "flops": peak, "fed_flops": fed})
        print(f"{threads:7} {peak / 1e9:7.1f} {peak / 1e9 / threads:9.1f} {fed / 1e9:12.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"target": target.key, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
