"""Pieces of GPU modules: bound tiles, stages in shared memory, asynchronous pipelines."""

from __future__ import annotations

import pytest
from tvm import te

import schedlang as sl
from schedlang.modules.gpu.auto_bind import bind_tiles
from schedlang.modules.gpu.finish_threads import (
    cooperative_fetching,
    fetch_width,
    overlap_copies,
    pipeline,
    stage_in_shared,
    vector_widths,
)
from schedlang.tvm.codegen.cuda import CUDAGenerator
from tests.language.primitives.programs import matmul
from tests.modules.module_runs import Golden, assert_golden


def tiled(
    axes: tuple[str, ...] = ("blockIdx.x", "vthread.x", "threadIdx.x"),
) -> tuple[sl.Schedule, sl.BlockRV, sl.LoopRV]:
    """A product of 16 x 16 x 16 on 4 blocks of 8 threads, and its outer reduction loop."""
    sch = sl.Schedule(matmul(), seed=0)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    rows = sch.split(i, [2, 1, 2, 4])
    columns = sch.split(j, [2, 1, 4, 2])
    k0, k1 = sch.split(k, [4, 4])
    levels = [[r, c] for r, c in zip(rows, columns, strict=True)]
    sch.reorder(*levels[0], *levels[1], *levels[2], k0, k1, *levels[3])
    bind_tiles(sch, levels, axes)
    return sch, block, k0


def fetched(
    lanes: int,
    warp_size: int = 0,
    axes: tuple[str, ...] = ("blockIdx.x", "vthread.x", "threadIdx.x"),
) -> sl.Schedule:
    sch, block, k0 = tiled(axes)
    cooperative_fetching(sch, stage_in_shared(sch, block, 0, k0), lanes, warp_size)
    return sch


def cuda_source(sch: sl.Schedule) -> str:
    return CUDAGenerator(sl.Target("cuda", arch="sm_80").tvm_target()).lower(sch.mod).source()


def test_operands_in_a_pipeline(golden: Golden) -> None:
    sch, block, k0 = tiled()
    for operand, lanes in ((0, 4), (1, 2)):
        cooperative_fetching(sch, stage_in_shared(sch, block, operand, k0), lanes)
    overlap_copies(sch, [k0], 2, 4)
    assert_golden(golden, "shared_stage_pipeline", sch)


def test_two_axes_of_threads() -> None:
    """The innermost axis is ``x``, whose threads load neighbouring vectors."""
    text = fetched(2, axes=("blockIdx.x", "threadIdx.y", "threadIdx.x")).mod.script()
    assert text.index('_1 in T.thread_binding(1, thread="threadIdx.y")') < text.index(
        '_2 in T.thread_binding(8, thread="threadIdx.x")'
    )
    assert "_3 in T.vectorized(2)" in text


def test_lanes_that_do_not_divide_the_copy() -> None:
    """A tile of 8 x 4 elements is no multiple of 3."""
    assert "vectorized" not in fetched(3).mod.script()


def test_threads_that_an_intrinsic_brings() -> None:
    text = fetched(1, 32, axes=("blockIdx.x", "threadIdx.z", "threadIdx.y")).mod.script()
    assert 'T.thread_binding(32, thread="threadIdx.x")' in text
    own = fetched(1, 32).mod.script()
    assert 'T.thread_binding(32, thread="threadIdx.x")' not in own


def test_nothing_is_shared_without_threads() -> None:
    assert "T.thread_binding" not in fetched(2, axes=()).mod.script()


@pytest.mark.parametrize(
    ("dtype", "widths"),
    [
        ("float32", [1, 2, 3, 4]),
        ("float16", [1, 2, 4, 8]),
        ("bfloat16", [1, 2, 4, 8]),
        ("int8", [1, 2, 3, 4, 8, 16]),
        ("float8_e4m3fn", [1, 2, 3, 4, 8, 16]),
        ("float64", [1]),
        ("bool", [1, 2, 3, 4, 8, 16]),
    ],
)
def test_widths_of_loads(dtype: str, widths: list[int]) -> None:
    assert vector_widths(dtype) == widths


def test_wide_loads_are_probable() -> None:
    sch, block, k0 = tiled()
    stage = stage_in_shared(sch, block, 0, k0)
    width = fetch_width(sch, stage, "width")
    fetch_width(sch, stage, "uniform", prior=False)
    probabilities = sch.trace.distributions["width"].probabilities()
    assert probabilities[-1] == max(probabilities) and min(probabilities) > 0
    assert len(set(sch.trace.distributions["uniform"].probabilities())) == 1
    cooperative_fetching(sch, stage, width)
    assert sch.trace.replay().mod.script() == sch.mod.script()


def test_a_program_with_asynchronous_stages_copies_asynchronously() -> None:
    sch, block, k0 = tiled()
    cooperative_fetching(sch, stage_in_shared(sch, block, 0, k0), 4)
    plain = cuda_source(sch)
    pipelined = sch.copy()
    pipeline(pipelined, k0, [0, 1])
    overlap_copies(sch, [k0], 1, 4)
    assert "cp.async.cg.shared.global" in cuda_source(sch)
    assert "cp.async" not in plain
    assert "cp.async" not in cuda_source(pipelined)


def test_vectors_with_a_stride_are_not_copied_asynchronously() -> None:
    """TVM would copy the neighbours of the first element instead of the column."""
    transposed = te_transposed_product()
    sch = sl.Schedule(transposed, seed=0)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [4, 4])
    sch.reorder(k0, i, j, k1)
    sch.bind(sch.add_unit_loop(k0), "blockIdx.x")
    stage = stage_in_shared(sch, block, 0, k0)
    row, _ = sch.split(sch.get_loops(stage)[-1], [16, 4])
    sch.compute_inline(sch.get_block("T"))
    plain = sch.copy()
    overlap_copies(plain, [k0], 1, 4)
    assert "cp.async.ca" in cuda_source(plain)
    sch.vectorize(sch.get_loops(stage)[-1])
    overlap_copies(sch, [k0], 1, 4)
    source = cuda_source(sch)
    assert "cp.async.ca" not in source and "cp.async.cg" not in source


@pytest.mark.parametrize(
    ("columns", "tile", "favoured"),
    [(16, 8, 4), (12, 6, 2), (18, 6, 2), (15, 5, 1)],
)
def test_vectors_do_not_cross_rows(columns: int, tile: int, favoured: int) -> None:
    """Neither those of the tile nor those of the operand."""
    sch = sl.Schedule(sl.workloads.matmul(16, columns, 16), seed=0)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, tile])
    k0, k1 = sch.split(k, [4, 4])
    sch.reorder(j0, k0, i, j1, k1)
    stage = stage_in_shared(sch, block, 1, k0)
    fetch_width(sch, stage, "width")
    widths = sch.trace.distributions["width"]
    assert widths.origin() == favoured


def te_transposed_product() -> sl.Workload:
    """C = A^T x B, 16 x 16 x 16, with the transpose as a block."""
    a, b = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    t = te.compute((16, 16), lambda i, k: a[k, i], "T")
    r = te.reduce_axis((0, 16), "k")
    c = te.compute((16, 16), lambda i, j: te.sum(t[i, r] * b[r, j], r), "C")
    return sl.workloads.from_te([a, b, c])
