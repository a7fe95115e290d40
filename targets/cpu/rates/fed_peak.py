"""Measure the peak of multiply-adds that read operands from the L1 cache, as matrix products do.

``measured_peak`` measures multiply-adds that touch no memory. Here a tile of accumulators is
updated with packed panels of both operands, one vector row and one column of elements per step,
like the inner loop of a good matrix product. The panels together take less than 20 KB. The result
is the fastest of several tile shapes.
"""

from __future__ import annotations

from schedlang.targets.cpu.rates.rate import best_rate, compile_text, use_threads
from schedlang.targets.cpu.target import CPUTarget
from schedlang.targets.measure.timing import TimingPolicy

# Rows and vectors of the tile; their accumulators fit 32 or 16 registers.
SHAPES = {512: ((14, 2), (12, 2), (8, 3), (6, 4)), 256: ((6, 2), (4, 3)), 128: ((6, 2), (4, 3))}
DEPTH = 64
_REPEATS = 1 << 14
_POLICY = TimingPolicy(min_sample_seconds=0.01, min_repeats=40, max_repeats=40, budget_seconds=2.0)

_PROGRAM = """
@T.prim_func(s_tir=True)
def main(
    a: T.Buffer(({depth}, {rows}), "float32"),
    b: T.Buffer(({depth}, {vectors}, {lanes}), "float32"),
    out: T.Buffer(({threads}, {rows}, {vectors}, {lanes}), "float32"),
):
    T.func_attr({{"tirx.noalias": True}})
    for thread in T.{kind}({threads}):
        for repeat in range({repeats}):
            sums = T.alloc_buffer(({rows}, {vectors}, {lanes}), "float32", scope="local")
            for i in T.unroll({rows}):
                for j in T.unroll({vectors}):
                    for lane in T.vectorized({lanes}):
                        sums[i, j, lane] = T.float32(0)
            for k in range({depth}):
                for i in T.unroll({rows}):
                    for j in T.unroll({vectors}):
                        for lane in T.vectorized({lanes}):
                            sums[i, j, lane] = sums[i, j, lane] + a[k, i] * b[k, j, lane]
            for i in T.unroll({rows}):
                for j in T.unroll({vectors}):
                    for lane in T.vectorized({lanes}):
                        out[thread, i, j, lane] = sums[i, j, lane]
"""


def fed_peak(threads: int | None = None) -> float:
    """Return the peak float32 operations per second of ``threads`` threads; all cores by default.

    ValueError for more threads than cores.
    """
    target = CPUTarget()
    threads = use_threads(target, threads)
    shapes = SHAPES[target.vector_bits]
    return max(_rate(target, threads, rows, vectors) for rows, vectors in shapes)


def _rate(target: CPUTarget, threads: int, rows: int, vectors: int) -> float:
    lanes = target.vector_bits // 32
    text = _PROGRAM.format(
        rows=rows,
        vectors=vectors,
        lanes=lanes,
        depth=DEPTH,
        threads=threads,
        repeats=_REPEATS,
        kind="parallel" if threads > 1 else "serial",
    )
    arguments = (
        ((DEPTH, rows), 0.5),
        ((DEPTH, vectors, lanes), 0.5),
        ((threads, rows, vectors, lanes), 0.5),
    )
    operations = 2 * threads * rows * vectors * lanes * DEPTH * _REPEATS
    return best_rate(compile_text(text, target), arguments, operations, _POLICY)
