"""Builds that take far longer than most are given up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Status
from schedlang.targets import LocalCPU
from schedlang.targets.worker import stages
from schedlang.targets.worker.pool import Slot
from schedlang.targets.worker.protocol import Reply
from schedlang.targets.worker.stages import BuildTimeout, Stages
from schedlang.workloads import matmul as plain_matmul
from schedlang.workloads.workload import Workload
from tests.targets.programs import from_body, matmul, scheduled_matmul


@pytest.fixture(scope="module")
def workload() -> Workload:
    return matmul()


def test_it_waits_long_until_some_builds_are_known() -> None:
    timeout = BuildTimeout(30.0, 20.0)
    for number in range(3):
        timeout.note(0.1)
        assert timeout.limit == 30.0 and timeout.median is None, number
    assert timeout.describe() == "not done within 30 s"
    timeout.note(0.3)
    assert (timeout.median, timeout.limit) == (0.1, 5.0)
    assert timeout.describe() == (
        "not done within 5 s of processor time, where half of them take 0.1 s"
    )


def test_a_build_that_hangs_is_told_the_wall_time() -> None:
    timeout = BuildTimeout(30.0, 20.0)
    for _ in range(8):
        timeout.note(0.1)
    assert timeout.describe(29.0).startswith("not done within 5 s of processor time")
    assert timeout.describe(30.1) == "not done within 30 s"


def test_the_limit_follows_the_median() -> None:
    timeout = BuildTimeout(30.0, 20.0)
    for seconds in (0.4, 9.0, 0.4, 0.5, 0.4, 0.6, 0.5, 9.0):
        timeout.note(seconds)
    assert timeout.limit == pytest.approx(20 * 0.5)
    for _ in range(20):
        timeout.note(2.0)
    assert timeout.limit == 30.0
    assert timeout.describe() == "not done within 30 s"


def test_it_may_be_endless() -> None:
    timeout = BuildTimeout(30.0, math.inf)
    for _ in range(20):
        timeout.note(0.1)
    assert timeout.limit == 30.0


def test_builds_of_another_workload_do_not_count(workload: Workload) -> None:
    with LocalCPU(workload, workers=1, verify=False) as measurer:
        for _ in range(8):
            measurer._build_timeout.note(0.1)
        assert measurer._build_timeout.limit == 5.0
        measurer.bind(plain_matmul(8, 8, 8))
        assert measurer._build_timeout.limit == 30.0


@pytest.mark.parametrize("factor", [1.0, 0.0, -1.0, math.nan])
def test_a_factor_that_most_builds_exceed_is_refused(factor: float, workload: Workload) -> None:
    with pytest.raises(TargetError, match=r"slow_build=.*; give more than 1, or math.inf"):
        LocalCPU(workload, slow_build=factor)


def test_the_limit_of_the_size_follows_the_median() -> None:
    timeout = BuildTimeout(30.0, 9.0)
    for size in (10_000, 3_000, 5_000):
        assert timeout.most_size(postponed=False) == 8_000
        assert timeout.most_size(postponed=True) is None  # nothing larger is left to wait for
        timeout.note(0.1, size)
    timeout.note(0.1)  # of a kind of worker that does not tell
    timeout.note(0.1, 4_000)
    assert timeout.most_size(postponed=False) == timeout.most_size(postponed=True) == 9 * 5_000
    assert timeout.describe_size(50_000) == (
        "not built: its code has the size 50000 (loads and stores after unrolling), where that of "
        "half of them is 5000, and the limit for builds 45000"
    )
    for _ in range(8):
        timeout.note(0.1, 100)
    assert timeout.most_size(postponed=False) == 8_000
    timeout.forget()
    assert timeout.most_size(postponed=True) is None


def test_the_size_may_be_endless() -> None:
    timeout = BuildTimeout(30.0, math.inf)
    for _ in range(8):
        timeout.note(0.1, 100)
    assert timeout.most_size(postponed=False) is None


LARGE = """
for i in T.unroll(32):
    for j in T.unroll(32):
        C[i, j] = A[i, j] + B[j, i]
"""


def test_large_code_is_not_built_and_costs_no_worker(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the first, and decided on when the size of others is known."""
    monkeypatch.setattr(stages, "_LEAST_SIZE", 500)
    modules = [from_body(LARGE), *(scheduled_matmul(workload, tile) for tile in (1, 2, 4, 8))]
    with LocalCPU(workload, workers=1) as measurer:
        candidates = [Candidate(number, module) for number, module in enumerate(modules)]
        workers = set()
        found = {}
        for measurement in measurer.measure(candidates):
            found[measurement.id] = measurement
            workers |= {slot.process.pid for slot in measurer._pool.slots if slot.process}
    assert found[0].status is Status.BUILD_TIMEOUT
    assert found[0].message.startswith("not built: its code has the size 3072 (loads and stores")
    assert all(found[number].ok for number in range(1, len(modules)))
    assert len(workers) == 1


def test_where_all_code_is_large_it_is_built(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_LEAST_SIZE", 1)
    modules = [scheduled_matmul(workload, tile) for tile in (1, 2, 4, 8, 16, 32)]
    with LocalCPU(workload, workers=1) as measurer:
        candidates = [Candidate(number, module) for number, module in enumerate(modules)]
        assert all(measurement.ok for measurement in measurer.measure(candidates))


def test_large_code_is_built_when_the_others_have_run(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its build may take most of the time that a call has left."""
    monkeypatch.setattr(stages, "_LEAST_SIZE", 500)
    done: list[tuple[str, int]] = []
    built, ran = Stages._built, Stages._ran

    def note_built(self: Stages, slot: Slot, reply: Reply, *rest: Any) -> Any:
        if reply.ok:
            done.append(("built", self.building[slot].serial))
        return built(self, slot, reply, *rest)

    def note_ran(self: Stages, slot: Slot, reply: Reply, *rest: Any) -> Any:
        done.append(("ran", self.running[slot][0].serial))
        return ran(self, slot, reply, *rest)

    monkeypatch.setattr(Stages, "_built", note_built)
    monkeypatch.setattr(Stages, "_ran", note_ran)
    modules = [scheduled_matmul(workload, 1), from_body(LARGE), scheduled_matmul(workload, 8)]
    with LocalCPU(workload, workers=1) as measurer:
        found = list(measurer.measure([Candidate(k, one) for k, one in enumerate(modules)]))
    assert [one.id for one in found if one.ok] == [0, 2]  # the large one computes something else
    first, _, last = sorted({serial for _, serial in done})
    large = first + 1
    assert done == [
        *(("built", first), ("built", last), ("ran", first), ("ran", last)),
        *(("built", large), ("ran", large)),
    ]
