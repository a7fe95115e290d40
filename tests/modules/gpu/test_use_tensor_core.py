"""UseTensorCore: where it applies, that its programs compile, and the instructions they have."""

from __future__ import annotations

import ast
import inspect
import shutil
from collections.abc import Sequence

import pytest

import schedlang as sl
from schedlang.errors import NotApplicable, SpaceError
from schedlang.modules import UseTensorCore
from schedlang.modules.gpu import auto_bind, use_tensor_core
from schedlang.targets.cuda import check, emulate
from schedlang.tvm.codegen.cuda import CUDAGenerator
from tests.lab.emulator.programs import needs_compiler
from tests.modules.gpu.tensor_core_programs import fused_dense

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")

SM80 = sl.Target("cuda", arch="sm_80")
INSTRUCTIONS = {
    "wmma": ("wmma::load_matrix_sync(", "wmma::mma_sync(", "wmma::store_matrix_sync("),
    "mma": ("ldmatrix.sync", "mma.sync"),
}


def sample(
    workload: sl.Workload, via: str, *, seed: int = 0, depths: Sequence[int] = (1, 2, 3, 4)
) -> sl.Schedule:
    space = sl.default_space(SM80) + UseTensorCore(via=[via], depths=depths)
    return space.sample(workload, seed=seed)


def test_the_module_is_short() -> None:
    """The paper's claim (6.3): a domain expert writes it in 82 lines."""
    source = inspect.getsource(use_tensor_core)
    docstrings = [
        node.body[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node)
    ]
    lines = set(range(1, len(source.splitlines()) + 1))
    for text in docstrings:
        lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    assert len([n for n in lines if source.splitlines()[n - 1].strip()]) < 82


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("via", ["wmma", "mma"])
@needs_nvcc
def test_fused_dense_compiles(via: str, arch: str) -> None:
    sch = sample(fused_dense(64, 64, 64), via, seed=1, depths=[3])
    report = check(sch, sl.Target("cuda", arch=arch))
    assert report.ok, report.problems
    assert len(report.kernels) == 1  # bias and activation are in the product's kernel
    for instruction in (*INSTRUCTIONS[via], "cp.async"):
        assert instruction in report.source


@pytest.mark.parametrize("via", ["wmma", "mma"])
@pytest.mark.parametrize(
    "workload",
    [
        sl.workloads.C2D(8, 8, 16, 32, 3, 2, 1, dtype="float16"),
        sl.workloads.TBG(32, 2, 16, dtype="float16", out_dtype="float32"),
        sl.workloads.matmul(33, 47, 29, dtype="float16", out_dtype="float32"),
    ],
    ids=["convolution", "batches", "odd"],
)
def test_products_of_other_forms(workload: sl.Workload, via: str) -> None:
    sch = sample(workload, via)
    [way] = [taken for site, taken in sch.trace.choices.items() if site.startswith("tensor_core")]
    assert way.removesuffix("_trans") == via
    assert sch.trace.replay().mod.script() == sch.mod.script()


@pytest.mark.parametrize("via", ["wmma", "mma"])
@pytest.mark.parametrize(
    ("dtype", "out_dtype", "instruction"),
    [
        ("float16", "float16", "m16n8k16.row.col.f16.f16.f16.f16"),
        ("float16", "float32", "m16n8k16.row.col.f32.f16.f16.f32"),
        ("bfloat16", "float32", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("int8", "int32", "m16n8k32.row.col.s32.s8.s8.s32"),
    ],
)
def test_types(dtype: str, out_dtype: str, instruction: str, via: str) -> None:
    workload = sl.workloads.matmul(32, 32, 64, dtype=dtype, out_dtype=out_dtype)
    for seed in range(2):
        sch = sample(workload, via, seed=seed)
        source = CUDAGenerator(SM80.tvm_target()).lower(sch.mod).source()
        assert (instruction if via == "mma" else "wmma::mma_sync(") in source


def test_where_vectors_do_not_lie_together() -> None:
    """Rows of 29 elements are not aligned: no vectors, and no asynchronous copies."""
    sch = sample(sl.workloads.matmul(33, 47, 29, dtype="float16"), "mma")
    assert sch.trace.choices["depth:C"] == 1
    drawn = [sch.trace.decisions[f"vector:C:{side}"] for side in "ABC"]
    assert drawn == [1, 1, 1]


def one_fragment_each(workload: sl.Workload, way: str, rows: int, columns: int) -> sl.Schedule:
    """Each block computes one fragment; those of a row of fragments are along x."""
    tiles = ("s_inner", "s_outer", "_warps")
    decisions = {f"row{tile}:C": (rows, 1) for tile in (*tiles, "_blocks")}
    decisions |= {f"column{tile}:C": (columns, 1) for tile in tiles}
    trace = sample(workload, way, depths=[1]).trace
    return trace.with_decisions(
        {**trace.decisions, **decisions, "column_blocks:C": (1, columns)}
    ).replay()


def test_more_blocks_than_a_grid_has_along_y() -> None:
    workload = sl.workloads.matmul(16 * 65536, 16, 16, dtype="float16", out_dtype="float32")
    sch = one_fragment_each(workload, "mma", 65536, 1)
    [kernel] = CUDAGenerator(SM80.tvm_target()).lower(sch.mod).kernels
    assert kernel.grid == (65536, 1, 1)


@needs_compiler
def test_blocks_along_x_only_are_the_same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_bind, "MAX_BLOCKS_Y", 2)
    workload = sl.workloads.matmul(48, 32, 16, dtype="float16", out_dtype="float32")
    sch = one_fragment_each(workload, "wmma", 3, 2)
    [kernel] = CUDAGenerator(SM80.tvm_target()).lower(sch.mod).kernels
    assert kernel.grid == (6, 1, 1)
    found = emulate(sch)
    assert found.verified is True, found.faults


@pytest.mark.parametrize(
    ("workload", "block", "why"),
    [
        (sl.workloads.matmul(64, 64, 64), "C", "no tensor core computes float32 x float32"),
        (sl.workloads.SFM(dtype="float16"), "row_sum", "no sum of products"),
        (sl.workloads.DEP(dtype="float16"), "depthwise_conv2d", "no rows, no columns"),
        (sl.workloads.SFM(dtype="float16"), "exponent", "no reduction"),
    ],
)
def test_where_it_does_not_apply(workload: sl.Workload, block: str, why: str) -> None:
    sch = sl.Schedule(workload)
    with pytest.raises(NotApplicable, match=why):
        UseTensorCore(sch, sch.get_block(block))


def test_wrong_options() -> None:
    sch = sl.Schedule(sl.workloads.matmul(16, 16, 16, dtype="float16"))
    with pytest.raises(SpaceError, match="via="):
        UseTensorCore(via=["wgmma"])(sch, sch.get_block("C"))
    with pytest.raises(SpaceError, match="max_warps"):
        UseTensorCore(max_warps=0)(sch, sch.get_block("C"))
