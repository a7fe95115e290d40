"""``LocalCPU`` with a user's inputs and results, and with workloads that count as large."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang import host, workloads
from schedlang.errors import WorkloadError
from schedlang.measurement import Candidate, Status
from schedlang.targets import LocalCPU, TimingPolicy
from schedlang.targets.worker.preparation import LargePolicy
from schedlang.workloads import from_prim_func
from tests.targets.programs import from_body, matmul, matmul_variant, scheduled_matmul, sleeping

QUICK = TimingPolicy(min_repeats=1, max_repeats=2)
WORKLOAD = matmul()
TRANSPOSED = matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]")
# Some tenths of a second, however fast the machine is.
SLEEPS = sleeping(8000)


class Impatient(LocalCPU):
    _large = LargePolicy(steps=1e3, cut_off_seconds=0.3)


def test_a_users_inputs_and_results_replace_the_programs() -> None:
    symmetric = np.full((64, 64), 0.5, "float32")
    inputs = {"B": symmetric, "A": np.eye(64, dtype="float32")}
    with LocalCPU(
        WORKLOAD, inputs=inputs, reference=np.matmul, workers=1, verify="all", timing=QUICK
    ) as measurer:
        # On these values only: A @ B and A @ B.T are the same.
        found = list(measurer.measure([Candidate(0, TRANSPOSED)]))
        assert [one.verified for one in found] == [True]
        assert measurer.reference_latency > 0 and measurer.reference_complete
    with LocalCPU(
        WORKLOAD,
        tolerance=0.2,
        reference=lambda a, b: 1.1 * (a @ b),
        workers=1,
        verify="all",
        timing=QUICK,
    ) as measurer:
        good = Candidate(0, scheduled_matmul(WORKLOAD))
        found = list(measurer.measure([good, Candidate(1, TRANSPOSED)]))
        assert {one.id: one.status for one in found} == {0: Status.OK, 1: Status.WRONG_RESULT}
        assert "tolerance=0.2" in measurer.key and "reference=computed by" in measurer.key


def test_a_slow_unscheduled_program_is_cut_off() -> None:
    with Impatient(SLEEPS, workers=1, verify=False, timing=QUICK) as measurer:
        assert 0.1 < measurer.reference_latency < 0.3
        assert not measurer.reference_complete
        measurer.bind(workloads.matmul(8, 8, 8))
        assert measurer.reference_complete


def test_a_workload_that_no_part_stands_for_is_run_once() -> None:
    total = from_prim_func(
        from_body(
            """
for i, k in T.grid(1, 4096):
    with T.sblock("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] += A[vk]
""",
            'A: T.Buffer((4096,), "float32"), B: T.Buffer((1,), "float32")',
        )["main"],
        name="total",
    )

    class Larger(LocalCPU):
        _large = LargePolicy(steps=1e3, window_steps=1e2)

    with Larger(total, workers=2, verify="all", timing=QUICK) as measurer:
        [one] = measurer.measure([Candidate(0, total.mod)])
        seconds = measurer._preparation.unscheduled_seconds
        assert one.verified and seconds is not None
        assert measurer.reference_latency == seconds > 0
        assert measurer.reference_complete


def test_a_workload_that_memory_cannot_hold_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 8 * 10**9)
    with pytest.raises(WorkloadError, match="too large for this machine: a worker needs about"):
        LocalCPU(workloads.matmul(60000, 60000, 60000))
    with LocalCPU(workloads.matmul(8192, 8192, 8192), workers=8) as measurer:
        assert measurer._pool.size < 8
        measurer.bind(WORKLOAD)
        assert measurer._pool.size == 8
