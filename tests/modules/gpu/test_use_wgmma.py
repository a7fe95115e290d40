"""UseWGMMA: where it applies, that its programs compile, and that their numbers are right."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from tvm import te

import schedlang as sl
from schedlang.analysis.intrinsics import MatrixProduct, intrinsic_axes, matrix_product
from schedlang.errors import NotApplicable, SpaceError
from schedlang.modules import UseWGMMA
from schedlang.modules.gpu.use_wgmma import LAYOUTS, choose_way
from schedlang.targets.cuda import check
from schedlang.targets.cuda.local import LocalCUDA
from schedlang.tvm.codegen.cuda import CUDAGenerator
from tests.lab.emulator.programs import needs_compiler
from tests.modules.gpu.tensor_core_programs import fused_dense

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")

SM90A = sl.Target("cuda", arch="sm_90a")
PRODUCT = sl.workloads.matmul(128, 128, 192, dtype="float16", out_dtype="float32")
ODD = sl.workloads.matmul(65, 47, 29, dtype="bfloat16", out_dtype="float32")
INSTRUCTIONS = ("wgmma.mma_async", "fence.proxy.async", "wgmma.wait_group")


def sample(
    workload: sl.Workload, seed: int = 0, target: sl.Target = SM90A, **options: object
) -> sl.Schedule:
    return (sl.default_space(target) + UseWGMMA(**options)).sample(workload, seed=seed)


def test_the_target_is_known() -> None:
    plain = sl.Target("cuda", arch="sm_90")
    assert SM90A.arch == "sm_90a"
    assert (SM90A.sms, SM90A.shared_bytes_optin) == (plain.sms, plain.shared_bytes_optin)


@needs_nvcc
def test_fused_dense_compiles() -> None:
    report = check(sample(fused_dense(128, 128, 256), layouts=["plain"], depths=[3]), SM90A)
    assert report.ok, report.problems
    [kernel] = report.kernels  # bias and activation are in the product's kernel
    assert kernel.resources is not None and kernel.resources.spill_store_bytes == 0
    assert kernel.resources.stack_bytes == 0
    for instruction in (*INSTRUCTIONS, "cp.async.cg"):
        assert instruction in report.source


@needs_nvcc
def test_a_large_product_fits_into_registers() -> None:
    """The largest tile: 64 x 256 results of a warpgroup are 128 registers of each thread."""
    workload = sl.workloads.matmul(4096, 4096, 4096, dtype="bfloat16", out_dtype="float32")
    sch = sample(workload, layouts=["swizzled"], depths=[3])
    decisions = {"columns:C": 256, "terms:C": 64, "rows:C": [64, 1], "warpgroups:C": [32, 2]}
    decisions |= {"row_blocks:C": [8, 4], "column_blocks:C": [4, 4]}
    changed = sch.trace.with_decisions(decisions).replay()
    assert changed.trace.decisions["columns:C"] == 256
    report = check(changed, SM90A)
    assert report.ok, report.problems
    assert "m64n256k16.f32.bf16.bf16" in report.source
    assert report.kernels[0].resources is not None
    assert report.kernels[0].resources.spill_store_bytes == 0


STRIPS = sl.workloads.matmul(70, 200, 64, dtype="float16", out_dtype="float32")


def of_192_columns(workload: sl.Workload, **more: object) -> sl.Schedule:
    """Swizzled rows of 192 elements: as 192 is no power of two, they are copied strip by strip."""
    sch = sample(workload, layouts=["swizzled"], depths=[2])
    decisions = {"vector:C:B": 8, "columns:C": 192, "terms:C": 64, **more}
    changed = sch.trace.with_decisions(decisions).replay()
    assert changed.trace.decisions["columns:C"] == 192
    return changed


@needs_nvcc
def test_tiles_of_192_columns_compile() -> None:
    """TVM did not lower these: "Check failed: (eval_vec_) is false"."""
    workload = sl.workloads.matmul(4096, 4096, 4096, dtype="float16", out_dtype="float32")
    tiles = {"rows:C": [64, 1], "warpgroups:C": [64, 1]}
    sch = of_192_columns(workload, **tiles, **{"row_blocks:C": [2, 32], "column_blocks:C": [11, 2]})
    report = check(sch, SM90A)
    assert report.ok, report.problems
    assert "m64n192k16" in report.source


@needs_compiler
def test_numbers_of_192_columns_are_right() -> None:
    sch = of_192_columns(STRIPS, **{"column_blocks:C": [2, 1]})
    found = sl.targets.cuda.emulate(sch, target=SM90A)
    assert found.verified is True, found.faults


@pytest.mark.parametrize(
    ("workload", "seed"),
    [
        (PRODUCT, 1),
        (ODD, 2),
        (sl.workloads.TBG(32, 2, 16, dtype="float16", out_dtype="float32"), 1),
    ],
    ids=["pipelined", "odd", "batches"],
)
@needs_compiler
def test_numbers_are_right(workload: sl.Workload, seed: int) -> None:
    sch = sample(workload, seed)
    assert "wgmma" in str(sch.mod)
    assert sch.trace.replay().mod.script() == sch.mod.script()
    found = sl.targets.cuda.emulate(sch, target=SM90A)
    assert found.verified is True, found.faults


@needs_compiler
def test_numbers_of_other_decisions_are_right() -> None:
    """A search changes decisions one by one: the intrinsic changes with its shape."""
    sch = sample(PRODUCT, layouts=["plain"], depths=[2])
    decisions = {"columns:C": 8, "terms:C": 64, "rows:C": [1, 2], "warpgroups:C": [1, 1]}
    changed = sch.trace.with_decisions({**decisions, "column_blocks:C": [4, 4]}).replay()
    assert "m64n8k16" in changed.mod.script()
    found = sl.targets.cuda.emulate(changed, target=SM90A)
    assert found.verified is True, found.faults


def product(left: Any, right: Any, name: str) -> Any:
    k = te.reduce_axis((0, left.shape[1]), "k")

    def total(i: Any, j: Any) -> Any:
        return te.sum(left[i, k].astype("float32") * right[k, j].astype("float32"), axis=k)

    return te.compute((left.shape[0], right.shape[1]), total, name=name)


def test_two_products_of_a_program() -> None:
    """The first is padded and swizzled; TVM must still know that it writes all of its result."""
    one, two, three = (te.placeholder(shape, "float16") for shape in ((64, 40), (40, 72), (72, 40)))
    first = product(one, two, "P0")
    half = te.compute(first.shape, lambda i, j: first[i, j].astype("float16"))
    workload = sl.workloads.from_te([one, two, three, product(half, three, "P1")])
    sch = sl.Schedule(workload, seed=0)
    for name in ("P0", "P1"):
        UseWGMMA(layouts=["swizzled"], depths=[2])(sch, sch.get_block(name))
    assert sch.mod.script().count("permuted_layout") == 4


def test_the_order_of_memory_is_more_probable() -> None:
    """A choice is one of both orders of B, and of the layouts; B is B[k, n] here."""
    ways = []
    for seed in range(20):
        sch = sl.Schedule(PRODUCT, seed=seed)
        block = sch.get_block("C")
        product = matrix_product(sch, block)
        assert isinstance(product, MatrixProduct)
        ways.append(choose_way(sch, block, product, "C", LAYOUTS))
    assert {way.swizzled for way in ways} == {way.transposed for way in ways} == {True, False}
    assert sum(way.transposed for way in ways) < 8


def test_tiles_stay_in_shared_memory() -> None:
    for seed in range(3):
        sch = sample(PRODUCT, seed, shared_bytes=40 * 1024, depths=[2])
        kernel = CUDAGenerator(SM90A.tvm_target()).lower(sch.mod).kernels[0]
        assert kernel.bytes_in("shared.dyn") <= 40 * 1024


@pytest.mark.parametrize(
    ("workload", "block", "why"),
    [
        (sl.workloads.matmul(64, 64, 64), "C", "does not compute float32 x float32 -> float32"),
        (sl.workloads.SFM(dtype="float16"), "row_sum", "no sum of products"),
        (sl.workloads.DEP(dtype="float16"), "depthwise_conv2d", "no rows, no columns"),
    ],
)
def test_where_it_does_not_apply(workload: sl.Workload, block: str, why: str) -> None:
    sch = sl.Schedule(workload)
    with pytest.raises(NotApplicable, match=why):
        UseWGMMA(sch, sch.get_block(block))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_other_architectures(arch: str) -> None:
    """With the target's architecture, the program is that of the space without the module."""
    target = sl.Target("cuda", arch=arch)
    sch = sl.Schedule(PRODUCT)
    with pytest.raises(NotApplicable, match=f"only sm_90a has wgmma, and the target is {arch}"):
        UseWGMMA(arch=target.arch)(sch, sch.get_block("C"))
    plain = sl.default_space(target).sample(PRODUCT, seed=0)
    assert sample(PRODUCT, 0, target, arch=arch).mod.script() == plain.mod.script()


@needs_nvcc
def test_without_the_architecture_the_compiler_says_so() -> None:
    report = check(sample(ODD), sl.Target("cuda", arch="sm_90"))
    assert not report.ok and "wgmma" in report.problems[0] and "sm_90" in report.problems[0]


def test_wrong_options() -> None:
    sch = sl.Schedule(PRODUCT)
    block = sch.get_block("C")
    with pytest.raises(SpaceError, match="layouts="):
        UseWGMMA(layouts=["swizzle"])(sch, block)
    with pytest.raises(SpaceError, match="max_warpgroups"):
        UseWGMMA(max_warpgroups=0)(sch, block)
    with pytest.raises(ValueError, match=r"no tensor intrinsic 'schedlang\.wgmma_64x'"):
        intrinsic_axes("schedlang.wgmma_64x")


@pytest.mark.gpu
def test_numbers_on_a_gpu() -> None:
    target = sl.Target("cuda")
    if target.arch != "sm_90a":
        pytest.skip(f"the GPU has {target.arch}, and only sm_90a has wgmma")
    for workload in (PRODUCT, ODD):
        found = [sample(workload, seed) for seed in range(8)]
        with LocalCUDA(workload, target, verify="all") as measurer:
            candidates = [sl.Candidate(n, sch.mod) for n, sch in enumerate(found)]
            for one in measurer.measure(candidates):
                assert one.ok and one.verified, (found[one.id].trace.decisions, one.message)
