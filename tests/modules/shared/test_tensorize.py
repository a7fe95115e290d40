"""``tensorize_with``: intrinsics of one's own and TVM's, tilings of one's own, and refusals."""

from __future__ import annotations

import functools

import pytest
from tvm import te

import schedlang as sl
from schedlang.analysis.intrinsics import block_axes, block_reads, define_intrinsic, intrinsic_axes
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.tiling import tensorize_with
from schedlang.workloads import from_te, matmul
from tests.modules.dot_products import assert_right_numbers, product
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled

DOT4 = "schedlang_test.dot4"
ROWS = "schedlang_test.double_rows"
_DOT4 = """
@T.prim_func(s_tir=True)
def dot(
    A: T.Buffer((4,), "float32", offset_factor=1),
    B: T.Buffer((4,), "float32", offset_factor=1),
    C: T.Buffer((1,), "float32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
"""
define_intrinsic(
    DOT4,
    _DOT4
    + """
        for k in range(4):
            with T.sblock("update"):
                vk = T.axis.reduce(4, k)
                C[0] = C[0] + A[vk] * B[vk]
""",
    _DOT4
    + """
        C[0] = C[0] + ((A[0] * B[0] + A[1] * B[1]) + (A[2] * B[2] + A[3] * B[3]))
""",
)
_ROW = """
@T.prim_func(s_tir=True)
def double(
    A: T.Buffer((8,), "float32", offset_factor=1), B: T.Buffer((8,), "float32", offset_factor=1)
) -> None:
    with T.sblock("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
"""
define_intrinsic(
    ROWS,
    _ROW
    + """
        for j in range(8):
            with T.sblock("B"):
                vj = T.axis.spatial(8, j)
                B[vj] = A[vj] * T.float32(2)
""",
    _ROW
    + """
        B[T.ramp(0, 1, 8)] = A.vload([0], "float32x8") + A.vload([0], "float32x8")
""",
)
TILE = "schedlang_test.double_tile"
_TILE = """
@T.prim_func(s_tir=True)
def double(
    A: T.Buffer((4, 8), "float32", offset_factor=1), B: T.Buffer((4, 8), "float32", offset_factor=1)
) -> None:
    with T.sblock("root"):
        T.reads(A[0:4, 0:8])
        T.writes(B[0:4, 0:8])
        for i, j in T.grid(4, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
define_intrinsic(TILE, _TILE, _TILE.replace("(2)", "(2) * T.float32(1)"))


@functools.cache
def rows() -> sl.Workload:
    """C[i, j] += A[i, k] * B[j, k]: both operands run along k."""
    return product(8, 12, 16, ("float32",) * 3, "jk")


@functools.cache
def doubled(n: int = 4, m: int = 16) -> sl.Workload:
    a = te.placeholder((n, m), "float32", "A")
    return from_te([a, te.compute((n, m), lambda i, j: a[i, j] * 2.0, "B")])


def test_what_intrinsics_and_blocks_look_like() -> None:
    assert intrinsic_axes("dot_16x4_vnni") == (("S", 16), ("R", 4))
    assert intrinsic_axes(DOT4) == (("R", 4),)
    sch = sl.Schedule(rows())
    block = sch.get_block("C")
    assert block_axes(sch, block) == (("S", 8), ("S", 12), ("R", 16))
    assert [(r.buffer, r.dtype, r.dims) for r in block_reads(sch, block)] == [
        ("A", "float32", (0, 2)),
        ("B", "float32", (1, 2)),
    ]


def test_an_index_that_is_no_variable_has_none() -> None:
    sch = sl.Schedule(sl.workloads.C1D(8, 2, 4, 3, 1, 0))
    *_, block = [b for b in sch.get_child_blocks("root") if len(block_reads(sch, b)) == 2]
    [data] = [read for read in block_reads(sch, block) if None in read.dims]
    assert len(data.variables) > sum(d is not None for d in data.dims)


def test_the_program_before_and_after(golden: Golden) -> None:
    sch = sampled(rows(), tensorize_with(intrinsic=DOT4, tiling=None))
    assert_golden(golden, "tensorize_with", sch)
    assert_right_numbers(sch)


def test_a_spatial_intrinsic(golden: Golden) -> None:
    sch = sampled(doubled(), tensorize_with(intrinsic=ROWS, tiling=None))
    assert_golden(golden, "tensorize_with_spatial", sch)
    assert_right_numbers(sch)


def test_loops_of_one_kind_are_matched_in_order() -> None:
    sch = sampled(doubled(16, 8), tensorize_with(intrinsic=TILE, tiling=None, max_jobs=0))
    assert [sch.extent(loop) for loop in sch.get_loops("B_o")] == [4, 1]
    assert_right_numbers(sch)


def test_the_numbers_with_multi_level_tiling() -> None:
    """The tiling's choices are there, and every sketch is right."""
    module = tensorize_with(intrinsic=DOT4)
    space = sl.Space([module, parallel_vectorize_unroll(cores=2)])
    choices = set()
    for sketch in space.sketches(rows()):
        choices.add(sketch.choices)
        sch = sketch.sample(seed=1)
        assert "T.parallel" in sch.mod.script()
        assert_right_numbers(sch)
    assert len(choices) > 1


def test_the_tiling_may_be_any_module() -> None:
    @sl.module
    def split_rows(sch: sl.Schedule, block: sl.BlockRV) -> None:
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 2])
        sch.reorder(i0, j, i1, k)

    sch = sampled(rows(), tensorize_with(intrinsic=DOT4, tiling=split_rows))
    assert [sch.extent(loop) for loop in sch.get_loops("C_o_update")] == [48, 2, 4]
    assert_right_numbers(sch)


@pytest.mark.parametrize(
    ("workload", "intrinsic", "block", "reason"),
    [
        (product(8, 8, 6, ("float32",) * 3, "jk"), DOT4, "C", "a loop of 6 .* intrinsic's 4"),
        (matmul(8, 8, 8), DOT4, "C", f"C is not what {DOT4} computes: "),
        (product(8, 16, 8, ("int8", "int8", "int32"), "jk"), "dot_16x4_vnni", "C", "C is not what"),
        (doubled(), DOT4, "B", "it has fewer loops than the intrinsic"),
    ],
)
def test_where_it_has_nothing_to_do(
    workload: sl.Workload, intrinsic: str, block: str, reason: str
) -> None:
    module = tensorize_with(intrinsic=intrinsic, tiling=None)
    assert_not_applicable(module, workload, block, reason)


def test_an_unknown_intrinsic_is_an_error() -> None:
    with pytest.raises(sl.SpaceError, match=r"intrinsic='dot5'\): no tensor intrinsic 'dot5'"):
        sampled(rows(), tensorize_with(intrinsic="dot5"))


def test_a_text_that_does_not_parse_is_an_error() -> None:
    define_intrinsic("schedlang_test.broken", _DOT4 + "        C[0] = = 1\n", _DOT4)
    with pytest.raises(sl.SpaceError, match=r"schedlang_test.broken'\): line 11: .*C\[0\] = = 1"):
        sampled(rows(), tensorize_with(intrinsic="schedlang_test.broken"))


def test_jobs_are_counted_from_0() -> None:
    with pytest.raises(sl.SpaceError, match=r"max_jobs=-1\): give 0 or more"):
        sampled(rows(), tensorize_with(intrinsic=DOT4, max_jobs=-1))
    serial = sampled(rows(), tensorize_with(intrinsic=DOT4, tiling=None, max_jobs=0))
    assert "T.parallel" not in serial.mod.script()


def test_a_tiling_is_a_module() -> None:
    with pytest.raises(sl.SpaceError, match=r"tiling='SSRS'\): give a module, or None"):
        sampled(rows(), tensorize_with(intrinsic=DOT4, tiling="SSRS"))


def test_a_name_has_one_meaning() -> None:
    define_intrinsic("schedlang_test.twice", _DOT4, _ROW)
    define_intrinsic("schedlang_test.twice", _DOT4, _ROW)
    with pytest.raises(ValueError, match="'schedlang_test.twice' is defined already"):
        define_intrinsic("schedlang_test.twice", _ROW, _DOT4)
