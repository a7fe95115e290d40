"""Measuring, tuning and deploying on an NVIDIA GPU.

``test_fake_gpu.py`` runs these on a GPU that this machine's CPU plays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Status
from schedlang.targets.cuda.local import LocalCUDA
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.workloads.workload import Workload
from tests.targets import programs
from tests.targets.cuda import gpu_programs
from tests.targets.pooled_contract import measured
from tests.targets.worker import state_changes

pytestmark = pytest.mark.gpu

QUICK = TimingPolicy(min_repeats=2, max_repeats=3, flush_cache=True)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return programs.matmul()


@pytest.fixture(scope="module")
def measurer(workload: Workload) -> Iterator[LocalCUDA]:
    with LocalCUDA(workload, builders=1, run_timeout=5.0, verify="all", timing=QUICK) as measurer:
        yield measurer


def test_right_programs_are_measured_and_verified(measurer: LocalCUDA, workload: Workload) -> None:
    found = measured(measurer, *(gpu_programs.bound_matmul(workload, n) for n in (32, 64, 256)))
    for measurement in found.values():
        assert measurement.status is Status.OK, measurement.message
        assert measurement.verified
        assert measurement.latency > 0
        assert measurement.disturbance is not None and measurement.disturbance.undisturbed
        assert measurement.build_seconds > 0 and measurement.run_seconds > 0
        build, load, run, verify = measurement.phases
        assert [one.activity for one in (build, load, run, verify)] == [
            *("build", "run", "run", "verify")
        ]
        # The worker on the GPU comes after those that build.
        assert build.worker is not None and measurement.worker is not None
        assert build.worker < measurement.worker == measurer._executor.builders.size
        assert build.end <= load.begin <= load.end <= run.begin
    assert measurer.best_so_far == min(measurement.latency for measurement in found.values())


def test_wrong_numbers_are_refused(measurer: LocalCUDA, workload: Workload) -> None:
    found = measured(measurer, gpu_programs.wrong_matmul(), gpu_programs.bound_matmul(workload))
    assert found[0].status is Status.WRONG_RESULT
    assert "elements differ" in found[0].message
    assert found[1].status is Status.OK, found[1].message


def test_results_that_an_earlier_call_left_are_refused(measurer: LocalCUDA) -> None:
    found = measured(measurer, gpu_programs.stale_matmul())
    assert found[0].status is Status.WRONG_RESULT, found[0].message


def test_a_program_that_leaves_its_process_changed_is_refused(
    measurer: LocalCUDA, workload: Workload
) -> None:
    good = gpu_programs.bound_matmul(workload)
    upwards = gpu_programs.leaves_its_process_rounding(state_changes.UPWARDS)
    found = measured(measurer, good, upwards, good)
    assert found[1].status is Status.RUN_ERROR, found[1].message
    assert "changed the rounding mode" in found[1].message
    assert found[0].ok and found[2].ok, (found[0].message, found[2].message)


def test_threads_that_race_through_indices_are_refused(
    measurer: LocalCUDA, workload: Workload
) -> None:
    measurer.bind(gpu_programs.unscheduled_sums_by_index())
    try:
        found = measured(measurer, gpu_programs.sums_by_index())
        assert found[0].status is Status.WRONG_RESULT
        assert "run in threads of the GPU and update the same elements of 'c'" in found[0].message
    finally:
        measurer.bind(workload)


def test_writes_behind_a_tensor_are_refused(measurer: LocalCUDA, workload: Workload) -> None:
    found = measured(measurer, gpu_programs.writes_behind(), gpu_programs.bound_matmul(workload))
    assert found[0].status is Status.WRONG_RESULT
    assert "writes right after the memory of argument 2" in found[0].message
    assert found[1].status is Status.OK, found[1].message


def test_an_illegal_access_is_a_crash_and_the_worker_is_replaced(
    measurer: LocalCUDA, workload: Workload
) -> None:
    good = gpu_programs.bound_matmul(workload)
    found = measured(measurer, good, gpu_programs.writes_far_away(), good)
    assert found[1].status is Status.CRASHED
    assert "cudaErrorIllegalAddress" in found[1].message
    assert found[0].ok and found[2].ok, (found[0].message, found[2].message)


def test_a_kernel_that_never_ends_is_given_up(measurer: LocalCUDA, workload: Workload) -> None:
    good = gpu_programs.bound_matmul(workload)
    found = measured(measurer, gpu_programs.never_ends(), good)
    assert found[0].status is Status.RUN_TIMEOUT
    assert found[1].ok, found[1].message


def test_a_program_beyond_the_limits_does_not_reach_the_gpu(
    measurer: LocalCUDA, workload: Workload
) -> None:
    found = measured(measurer, gpu_programs.bound_matmul(workload, 2048))
    assert found[0].status is Status.REJECTED
    assert "2048" in found[0].message
    assert found[0].run_seconds == 0


def test_finals_take_samples_in_turn(measurer: LocalCUDA, workload: Workload) -> None:
    good = [gpu_programs.bound_matmul(workload, n) for n in (32, 128)]
    given = [good[0], programs.from_body(programs.UNBUILDABLE), good[1]]
    first, bad, second = measurer.remeasure(
        [Candidate(number, module) for number, module in enumerate(given)], rounds=3
    )
    assert first.ok and second.ok, (first.message, second.message)
    assert len(first.samples) == len(second.samples) >= 3
    assert not bad.ok and bad.id == 1


def test_the_unscheduled_program_is_timed_on_the_gpu(measurer: LocalCUDA) -> None:
    assert 0 < measurer.reference_latency < 1


def test_other_workloads_in_the_same_workers(measurer: LocalCUDA, workload: Workload) -> None:
    other = sl.workloads.matmul(32, 64, 16)
    measurer.bind(other)
    try:
        found = measured(measurer, gpu_programs.bound_matmul(other, 32))
        assert found[0].ok and found[0].verified, found[0].message
    finally:
        measurer.bind(workload)


def test_inputs_of_several_characters(measurer: LocalCUDA, workload: Workload) -> None:
    """A product without its negative elements' sign is right on inputs that have none."""
    relu = sl.workloads.from_prim_func(
        programs.matmul_variant(
            "C[vi, vj] = T.if_then_else(vk == 63, T.max(C[vi, vj] + A[vi, vk], T.float32(0)), "
            "C[vi, vj] + A[vi, vk])"
        )["main"]
    )
    dropped = programs.matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk]")
    measurer.bind(relu)
    try:
        found = measured(measurer, gpu_programs.bound(relu.mod), gpu_programs.bound(dropped))
        assert found[0].ok, found[0].message
        assert found[1].status is Status.WRONG_RESULT
    finally:
        measurer.bind(workload)


def test_right_results_of_a_large_workload_come_from_the_gpu(
    measurer: LocalCUDA, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sl.workloads.matmul(48, 48, 48)
    large = type(measurer._large)(steps=1e4, window_steps=1e4)
    monkeypatch.setattr(measurer, "_large", large)
    measurer.bind(other)
    try:
        found = measured(measurer, gpu_programs.bound_matmul(other, 32))
        assert found[0].ok and found[0].verified, found[0].message
        assert measurer._preparation.binding.reference is not None
        assert measurer._preparation.unscheduled_seconds is None
    finally:
        measurer.bind(workload)


@pytest.mark.timeout(600)
def test_tuning_building_and_loading(tmp_path: Path) -> None:
    workload = sl.workloads.matmul(64, 64, 64)
    result = sl.tune(workload, "cuda", trials=8, seed=0, progress=False)
    assert result.best.record.verified
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64), np.float32) for _ in range(2))
    path = sl.targets.export_library(result.best.schedule.mod, "cuda", tmp_path / "product.so")
    for program in (result.best.build(), sl.load(path)):
        c = np.empty((64, 64), np.float32)
        program(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
