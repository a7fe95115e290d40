"""Measure how fast this machine's memory is read and written: copies of large arrays."""

from __future__ import annotations

from schedlang.errors import SchedlangError
from schedlang.targets import host
from schedlang.targets.cpu.rates.rate import compile_text, times, use_threads
from schedlang.targets.cpu.target import CPUTarget
from schedlang.targets.measure.timing import TimingPolicy

# Each array is this many times the last cache, and between these numbers of bytes.
_TIMES_CACHE = 4
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30
# Part of the free memory that both arrays may take.
_PART = 0.25
_POLICY = TimingPolicy(min_sample_seconds=0.01, min_repeats=10, max_repeats=40, budget_seconds=2.0)

_PROGRAM = """
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
    text = _PROGRAM.format(threads=threads, vectors=vectors, lanes=lanes, kind=kind)
    shape = (threads, vectors, lanes)
    moved = 2 * 4 * threads * vectors * lanes
    arguments = ((shape, 1.0), (shape, 0.0))
    return moved / min(times(compile_text(text, target), arguments, _POLICY))
