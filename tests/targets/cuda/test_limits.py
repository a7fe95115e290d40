"""What a GPU does not launch is known before it is sent there, with its reason and numbers."""

from __future__ import annotations

import json

import pytest
from tvm import te

import schedlang as sl
from schedlang.errors import TargetError
from schedlang.measurement import Status
from schedlang.measurement.measurement import reason_of
from schedlang.targets.cuda import limits, report
from schedlang.targets.cuda.limits import Limits, Reason, occupancy
from schedlang.targets.cuda.nvcc import Resources
from schedlang.targets.errors import Fault
from schedlang.targets.kinds import code_generator
from schedlang.tvm.codegen.cuda_kernels import CUDAKernel
from schedlang.workloads.construct import from_te
from schedlang.workloads.workload import Workload
from tests.targets.cuda.programs import tiled


@pytest.fixture
def target() -> sl.Target:
    return sl.Target("cuda", arch="sm_80")


def kernels_of(schedule: sl.Schedule, target: sl.Target) -> tuple[CUDAKernel, ...]:
    return code_generator(target.spec()).lower(schedule.mod).kernels


def test_what_a_kernel_asks_for(target: sl.Target) -> None:
    [kernel] = kernels_of(tiled(side=64, threads=8, tile=2), target)
    assert (kernel.grid, kernel.block, kernel.threads) == ((4, 4, 1), (8, 8, 1), 64)
    assert kernel.bytes_in("shared") == 2 * 16 * 16 * 4
    assert kernel.bytes_in("local") == 4 * 4
    assert kernel.misaligned == ()
    assert limits.check([kernel], Limits.of(target)) == []


def test_too_many_threads(target: sl.Target) -> None:
    kernels = kernels_of(tiled(side=128, threads=64, tile=1, depth=64), target)
    [found] = limits.check(kernels, Limits.of(target))
    assert (found.reason, found.value, found.limit) == (Reason.THREADS, 4096, 1024)
    assert "64 x 64 threads, and a block has at most 1024" in found.message


def test_shared_memory_by_its_sort(target: sl.Target) -> None:
    def reasons(scope: str, depth: int) -> list[tuple[str, int, int]]:
        kernels = kernels_of(tiled(side=256, threads=8, tile=8, depth=depth, scope=scope), target)
        found = limits.check(kernels, Limits.of(target))
        return [(one.reason, one.value, one.limit) for one in found]

    # The tiles of A and B: 2 x 64 rows or columns of depth float32 values.
    assert reasons("shared", 64) == []
    assert reasons("shared", 128) == [("shared memory", 65536, 49152)]
    assert reasons("shared.dyn", 128) == []
    assert reasons("shared.dyn", 256) == []
    assert Limits.of(sl.Target("sm_75")).shared_bytes_optin == 65536
    kernels = kernels_of(tiled(side=256, tile=8, depth=256, scope="shared.dyn"), target)
    [found] = limits.check(kernels, Limits.of(sl.Target("sm_89")))
    assert (found.value, found.limit, found.subject) == (131072, 99 << 10, "buf_dyn_shmem")


def test_a_grid_has_a_largest_extent(target: sl.Target) -> None:
    copy = sl.Schedule(_column(2**17))
    block = copy.get_block("B")
    row, _ = copy.get_loops(block)
    copy.bind(row, "blockIdx.y")
    [found] = limits.check(kernels_of(copy, target), Limits.of(target))
    assert (found.reason, found.value, found.limit) == (Reason.GRID, 2**17, 65535)
    assert found.subject == "blockIdx.y"


def _column(rows: int) -> Workload:
    a = te.placeholder((rows, 1), "float32", "A")
    return from_te([a, te.compute((rows, 1), lambda i, j: a[i, j] + 1.0, "B")])


def test_misaligned_vectors(target: sl.Target) -> None:
    def found(**how: object) -> list[limits.Violation]:
        return limits.check(kernels_of(tiled(vector=4, **how), target), Limits.of(target))

    assert found() == []
    assert found(pad=4) == []
    first, second = found(pad=1)
    assert first.reason is Reason.ALIGNMENT and first.value % 16
    assert {first.subject, second.subject} == {"A_shared", "B_shared"}
    assert "16 bytes of A_shared at once" in first.message
    # An asynchronous copy has no code for what is not aligned.
    dynamic = {"scope": "shared.dyn", "asynchronous": True}
    assert found(**dynamic) == []
    assert {one.reason for one in found(pad=1, **dynamic)} == {Reason.ALIGNMENT}


def test_registers_of_a_whole_block(target: sl.Target) -> None:
    kernels = kernels_of(tiled(side=64, threads=32, tile=1), target)
    few, many = Resources(64, 0, 0, 0, 0), Resources(65, 0, 0, 0, 0)
    assert limits.check(kernels, Limits.of(target), {"main_kernel": few}) == []
    [found] = limits.check(kernels, Limits.of(target), {"main_kernel": many})
    assert (found.reason, found.value, found.limit) == (Reason.REGISTERS, 32 * 2304, 65536)


def test_a_rejection_is_a_status_with_a_word_to_count_by(target: sl.Target) -> None:
    known = Limits(**json.loads(json.dumps(target.spec()))["limits"])
    assert known == Limits.of(target)
    kernels = kernels_of(tiled(side=128, threads=64, tile=1, depth=64), target)
    with pytest.raises(Fault) as error:
        limits.require(kernels, known)
    assert error.value.status is Status.REJECTED
    assert reason_of(Status.REJECTED, str(error.value)) == "threads"
    assert reason_of(Status.RUN_ERROR, "threads: it fell") == "run_error"
    assert reason_of(Status.REJECTED, "") == "rejected"


# CUDA's occupancy calculator.
@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limited_by"),
    [
        ("sm_80", 256, 32, 0, 8, "threads"),
        ("sm_80", 256, 64, 0, 4, "registers"),
        ("sm_80", 256, 128, 0, 2, "registers"),
        ("sm_80", 32, 32, 0, 32, "blocks"),
        ("sm_80", 256, 32, 48 << 10, 3, "shared memory"),
        ("sm_90", 256, 32, 227 << 10, 1, "shared memory"),
        ("sm_86", 256, 32, 0, 6, "threads"),
        ("sm_86", 1024, 64, 0, 1, "threads"),
        ("sm_80", 96, 40, 0, 16, "registers"),
        ("sm_75", 256, 64, 16 << 10, 4, "threads"),
        ("sm_80", 1024, 65, 0, 0, "registers"),
    ],
)
def test_occupancy(
    arch: str, threads: int, registers: int, shared: int, blocks: int, limited_by: str
) -> None:
    target = sl.Target(arch)
    found = occupancy(target, threads=threads, registers=registers, shared_bytes=shared)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.warps == blocks * -(-threads // 32) * 32 / target.max_threads_per_sm


def test_a_report_without_a_compiler(target: sl.Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.nvcc, "find", lambda: None)
    found = sl.targets.cuda.check(tiled(), target)
    assert found.ok and "__global__" in found.source
    assert found.kernels[0].resources is None
    assert "there is no nvcc" in str(found)
    assert "main_kernel: 4 x 4 blocks of 8 x 8 threads, 2048 bytes" in str(found)
    broken = sl.targets.cuda.check(tiled(side=128, threads=64, tile=1, depth=64), "sm_80")
    assert not broken.ok
    assert broken.problems == (
        "threads: main_kernel has blocks of 64 x 64 threads, and a block has at most 1024: bind "
        "shorter loops to threadIdx",
    )


def test_what_does_not_lower_has_its_reason() -> None:
    sch = tiled()
    sch.annotate(sch.get_block("A_shared"), "double_buffer_scope", 7)
    found = sl.targets.cuda.check(sch, "sm_80")
    assert not found.ok and found.kernels == ()
    assert "TVM does not lower it" in found.problems[0]


UPDATE = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
    for i in range(30):
        with T.sblock("B"):
            v = T.axis.spatial(30, i)
            B[v] = B[v] * T.float32(0.5) + A[v]
"""


def test_what_no_gpu_program_is() -> None:
    scheduled = sl.default_space("x86/avx2").sample(sl.workloads.matmul(8, 8, 8), seed=0)
    with pytest.raises(sl.TargetError, match=r"scheduled for a CPU.*default_space\(\"h100\"\)"):
        report.check(scheduled, "h100")
    with pytest.raises(TypeError, match="program=None is no program"):
        report.check(None, "h100")
    updated = sl.workloads.from_script(UPDATE)
    with pytest.raises(sl.TargetError, match=r"no threads .*overlap|dataflow.*T.thread_binding"):
        report.check(sl.default_space("h100").sample(updated, seed=0), "h100")


def test_only_gpus_are_checked() -> None:
    with pytest.raises(TargetError, match="of kind 'cpu'"):
        sl.targets.cuda.check(tiled(), "cpu")
