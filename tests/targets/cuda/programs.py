"""Programs for GPUs: a product whose tiles and memory a test chooses."""

from __future__ import annotations

import schedlang as sl
from schedlang.workloads.operators import matmul


def tiled(
    *,
    side: int = 64,
    threads: int = 8,
    tile: int = 2,
    scope: str = "shared",
    depth: int = 16,
    vector: int = 1,
    asynchronous: bool = False,
    pad: int = 0,
    dtype: str = "float32",
) -> sl.Schedule:
    """A product of two square matrices by blocks of ``threads`` x ``threads`` threads.

    Each computes ``tile`` x ``tile`` elements, and reads ``depth`` elements of the sum at a time
    from memory of ``scope``, that ``vector`` elements at a time are copied to. ``pad`` is the
    number of elements between the rows of what is copied.
    """
    sch = sl.Schedule(matmul(side, side, side, dtype=dtype))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, threads, tile])
    j0, j1, j2 = sch.split(j, [None, threads, tile])
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x")):
        sch.bind(loop, axis)
    for loop, axis in ((i1, "threadIdx.y"), (j1, "threadIdx.x")):
        sch.bind(loop, axis)
    sch.reverse_compute_at(sch.cache_write(block, 0, "local"), j1)
    for operand in (0, 1):
        copy = sch.cache_read(block, operand, scope)
        sch.compute_at(copy, k0)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x, lanes = sch.split(fused, [None, threads, threads, vector])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        sch.vectorize(lanes)
        if pad:
            sch.storage_align(copy, 0, axis=0, factor=depth, offset=pad)
    sch.decompose_reduction(block, k0)
    if asynchronous:
        sch.annotate(k0, "software_pipeline_stage", [0, 0, 1])
        sch.annotate(k0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k0, "software_pipeline_async_stages", [0])
    return sch
