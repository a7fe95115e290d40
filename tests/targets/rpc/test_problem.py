"""``RPC`` with a user's results, and with workloads that count as large."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Iterator

import numpy as np
import pytest

from schedlang.measurement import Candidate, Status
from schedlang.targets import Target, TimingPolicy
from schedlang.targets.measure.expected.large import LargePolicy
from schedlang.targets.rpc.launch import Service, start_server, start_tracker
from schedlang.targets.rpc.measurer import RPC
from tests.targets.programs import matmul, matmul_variant, scheduled_matmul, sleeping

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tornado") is None, reason="TVM's tracker needs tornado"
)

KEY = "cpu"
ONE_CORE = Target("cpu", cores=1)
QUICK = TimingPolicy(min_repeats=1, max_repeats=2)
WORKLOAD = matmul()
GOOD = Candidate(0, scheduled_matmul(WORKLOAD))
WRONG = Candidate(1, matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"))
# Seconds, however fast the machine is.
SLEEPS = sleeping(100000)


class Large(RPC):
    """Everything but the smallest workloads is large for it."""

    _large = LargePolicy(steps=1e3, window_steps=2e4)


class Impatient(RPC):
    _large = LargePolicy(steps=1e3, cut_off_seconds=2.0)


@pytest.fixture(scope="module")
def tracker() -> Iterator[Service]:
    with start_tracker() as service:
        cpu = Target("cpu").cpus[0]
        with start_server(service.address, KEY, cpus=[cpu]):
            yield service


def statuses(measurer: RPC) -> dict[int, Status]:
    return {one.id: one.status for one in measurer.measure([GOOD, WRONG])}


def test_a_users_results_and_inputs_go_to_the_servers(tracker: Service) -> None:
    with RPC(
        WORKLOAD,
        ONE_CORE,
        tracker=tracker.address,
        key=KEY,
        verify="all",
        timing=QUICK,
        inputs=lambda rng: [rng.random((64, 64), "float32") for _ in range(2)],
        reference=np.matmul,
    ) as measurer:
        assert statuses(measurer) == {0: Status.OK, 1: Status.WRONG_RESULT}
        assert measurer._preparation.binding.reference is not None


def test_a_large_workload_is_verified_with_results_that_were_computed_once(
    tracker: Service,
) -> None:
    with Large(
        WORKLOAD, ONE_CORE, tracker=tracker.address, key=KEY, verify="all", timing=QUICK
    ) as measurer:
        measurer.deadline = time.monotonic()
        assert statuses(measurer) == {} and math.isnan(measurer.reference_latency)
        measurer.deadline = math.inf
        assert statuses(measurer) == {0: Status.OK, 1: Status.WRONG_RESULT}
        assert measurer._preparation.binding.reference is not None
        assert measurer.reference_latency > 0 and measurer.reference_complete


def test_a_slow_unscheduled_program_is_cut_off(tracker: Service) -> None:
    with Impatient(
        SLEEPS, ONE_CORE, tracker=tracker.address, key=KEY, verify=False, timing=QUICK
    ) as measurer:
        bound = measurer.reference_latency
        assert 0 < bound < 64 * 0.1 and not measurer.reference_complete
