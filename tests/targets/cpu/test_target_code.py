"""What the code generator makes for the named targets; nothing of it runs."""

from __future__ import annotations

import random
import re

import pytest
from tvm.ir import IRModule
from tvm.script import from_source

import schedlang as sl
from schedlang import host
from schedlang.targets import BuildError, Target
from schedlang.targets.cpu.features import NAMED
from schedlang.targets.cpu.target import generate_assembly
from schedlang.workloads import matmul

_SCALABLE = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    for i in range(T.ceildiv(4096, 4 * T.vscale())):
        for j in T.vectorized(4 * T.vscale()):
            if i * 4 * T.vscale() + j < 4096:
                B[i * 4 * T.vscale() + j] = A[i * 4 * T.vscale() + j] * T.float32(2)
"""


@sl.module
def register_tile(sch: sl.Schedule, block: sl.BlockRV, *, lanes: int) -> None:
    """for i, j, k: C  ->  parallel i0: for j0: init; for k: for i1: vectorized j1: C"""
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, lanes])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(i0)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k)


def _tuned_like(target: Target) -> IRModule:
    return sl.Space([register_tile(lanes=target.lanes(32))]).sample(matmul(64, 64, 64), seed=0).mod


@pytest.mark.parametrize(
    ("name", "register", "wider", "multiply_add"),
    [
        ("x86/avx2", r"%ymm\d", r"%zmm\d", r"vfmadd\w+ps.*%ymm"),
        ("x86/avx512", r"%zmm\d", r"%tmm\d", r"vfmadd\w+ps.*%zmm"),
        ("x86/avx512_vnni", r"%zmm\d", r"%tmm\d", r"vfmadd\w+ps.*%zmm"),
        ("x86/avx512_bf16", r"%zmm\d", r"%tmm\d", r"vfmadd\w+ps.*%zmm"),
        ("aarch64/neon", r"v\d+\.4s", r"\bz\d+\.s", r"fmla\s+v\d+\.4s"),
        ("aarch64/dotprod", r"v\d+\.4s", r"\bz\d+\.s", r"fmla\s+v\d+\.4s"),
        ("aarch64/sve", r"v\d+\.4s", r"\bz\d+\.s", r"fmla\s+v\d+\.4s"),
    ],
)
def test_a_matmul_is_of_the_targets_vectors(
    name: str, register: str, wider: str, multiply_add: str
) -> None:
    target = Target(name)
    text = generate_assembly(_tuned_like(target), target)
    assert re.search(register, text)
    assert re.search(multiply_add, text)
    assert not re.search(wider, text)


@pytest.mark.parametrize("bits", [256, 512])
def test_sve_of_a_known_length_is_used_for_vectors(bits: int) -> None:
    target = Target("aarch64/sve", vector_bits=bits)
    text = generate_assembly(_tuned_like(target), target)
    assert re.search(r"fml?ad?\s+z\d+\.s", text)
    # The next program is not compiled for it.
    assert not re.search(
        r"\bz\d+\.s", generate_assembly(_tuned_like(target), Target("aarch64/sve"))
    )


def test_sve_has_vectors_of_any_length() -> None:
    program = IRModule({"main": from_source(_SCALABLE)})
    assert re.search(r"\bz\d+\.s", generate_assembly(program, Target("aarch64/sve")))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_twenty_programs_of_the_default_space_build(name: str) -> None:
    target = Target(name)
    space = sl.default_space(target)
    workload = matmul(32, 32, 32)
    rng = random.Random(0)
    texts = set()
    for _ in range(20):
        mod = space.sample(workload, seed=rng.getrandbits(32)).mod
        texts.add(generate_assembly(mod, target))
    assert len(texts) >= 10
    vectors = r"%[yz]mm\d" if target.architecture == "x86_64" else r"v\d+\.4s"
    assert any(re.search(vectors, text) for text in texts)


@pytest.mark.skipif(host.architecture() != "x86_64", reason="this machine is no x86_64")
def test_code_for_less_than_this_machine_has_runs_here() -> None:
    target = Target("x86/avx2", cores=1)
    if missing := target.missing_features():
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    workload = matmul(32, 32, 32)
    result = sl.tune(workload, target, trials=3, seed=0, verify="all", finals=0)
    assert result.best.record.target_key == target.key
    assert result.best.record.verified


def test_what_has_no_code_says_why() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in T.thread_binding(4, thread="threadIdx.x"):
        A[i] = T.float32(1)
"""
    with pytest.raises(BuildError, match="not implemented"):
        generate_assembly(IRModule({"main": from_source(text)}), "avx2")
