"""Interleaved timing: with workers that a test plays, and with real ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from tvm.ir import IRModule

from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.disturbance import Disturbance, Sample
from schedlang.targets import LocalCPU, TimingPolicy
from schedlang.targets.worker.executor import Requests, Work
from schedlang.targets.worker.interleaved import InterleavedTiming
from schedlang.targets.worker.pool import Slot
from schedlang.targets.worker.protocol import Reply, Request
from schedlang.workloads.workload import Workload
from tests.targets.programs import ABORT, from_body, matmul, matmul_variant, scheduled_matmul

POLICY = TimingPolicy(min_sample_seconds=1e-3)


class Pool:
    """Workers that answer what ``latency(id, samples so far)`` says: seconds, or a failure.

    Seconds may be a ``Sample``, which says how long its threads waited. Those that are asked
    ``until`` a time answer as many requests before it.
    """

    def __init__(self, latency: Callable[[int, int], float | Sample | Reply]) -> None:
        self.dropped = 0
        self.requests = 0
        self.slots = [Slot(0)]
        self.asked: list[tuple[str, int]] = []
        self.calls: set[int] = set()
        self.verified: list[bool] = []
        self.workers = 0
        self._latency = latency

    def ready_by(self, until: float) -> Slot | None:
        self.workers += 1
        return self.slots[0] if until > 0 else None

    def drop(self, slot: Slot) -> None:
        self.dropped += 1

    def settle(self, slot: Slot) -> None:
        raise AssertionError("there is one worker only")

    def ask_until(self, slot: Slot, request: Request, until: float) -> Reply | None:
        self.requests += 1
        return self._answer(request) if self.requests <= until else None

    def _answer(self, request: Request) -> Reply:
        header = request.header
        if header["request"] == "build":
            self.asked.append(("build", header["id"]))
            return Reply({"ok": True}, seconds=0.5)
        if header["request"] == "run":
            answer = self._sample("run", header["id"])
            if isinstance(answer, Reply):
                return answer
            return Reply({"ok": True, "samples": [answer.seconds], "verified": True}, seconds=0.1)
        taken = list[Sample]()
        for identity, calls in header["programs"]:
            self.calls.add(calls)
            self.verified.append(header["verify"])
            answer = self._sample("sample", identity)
            if isinstance(answer, Reply):
                return answer
            taken.append(answer)
        return Reply({"ok": True, "samples": taken}, seconds=0.01 * len(taken))

    def _sample(self, kind: str, identity: int) -> Sample | Reply:
        self.asked.append((kind, identity))
        answer = self._latency(identity, self.asked.count(("sample", identity)))
        return Sample(answer) if isinstance(answer, float) else answer


def failure(*, lost: bool) -> Reply:
    return Reply({"ok": False, "status": "crashed", "message": "it ended"}, lost=lost)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return matmul()


def time_interleaved(
    pool: Pool,
    workload: Workload,
    count: int = 3,
    rounds: int = 4,
    budget: float = 1e9,
    until: float = math.inf,
) -> list[Measurement]:
    works = [Work(Candidate(100 + n, workload.mod), n) for n in range(count)]
    timing = InterleavedTiming(pool, Requests(POLICY, 1.0, 1.0), True, until)  # type: ignore[arg-type]
    return timing.measure(works, rounds, budget)


def test_each_has_one_sample_a_round_there_and_back(workload: Workload) -> None:
    pool = Pool(lambda identity, done: 1e-4 * (1 + identity) + 1e-9 * done)
    found = time_interleaved(pool, workload)
    order = [identity for kind, identity in pool.asked if kind == "sample"]
    assert order == [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0]
    assert [m.id for m in found] == [100, 101, 102]
    for number, measurement in enumerate(found):
        assert measurement.ok and measurement.verified
        # The samples of the first run, which had the machine to themselves, are not among them.
        expected = [1e-4 * (1 + number) + 1e-9 * done for done in range(1, 5)]
        assert measurement.samples == tuple(expected)
        assert measurement.build_seconds == 0.5
        assert measurement.run_seconds == pytest.approx(0.1 + 4 * 0.01)
    assert pool.calls == {10, 5, 4} and pool.workers == 1


def test_noise_alone_is_no_reason_for_more_rounds(workload: Workload) -> None:
    found = time_interleaved(
        Pool(lambda _, done: 1e-3 * (1 + 0.5 * (done % 3))), workload, rounds=5
    )
    assert [len(m.samples) for m in found] == [5, 5, 5]


def test_samples_that_other_work_disturbed_do_not_count(workload: Workload) -> None:
    """Most of those of the faster program are: it would be the slower one by its median."""

    def latency(identity: int, done: int) -> Sample:
        busy = identity == 0 and done % 3
        return Sample(3e-3, 1.5e-3) if busy else Sample(1e-3 * (1 + identity), 0.0)

    found = time_interleaved(Pool(latency), workload, count=2, rounds=18)
    assert [one.samples for one in found] == [(1e-3,) * 18, (2e-3,) * 54]
    assert found[0].disturbance == Disturbance(18, 36, 1e-3, 1e-3)


def test_of_samples_that_were_all_disturbed_the_fastest_count(workload: Workload) -> None:
    pool = Pool(lambda _, done: Sample(1e-3 * (2 - done % 8 / 128), 5e-4))
    found = time_interleaved(pool, workload, count=1, rounds=8)
    assert found[0].samples == tuple(1e-3 * (2 - n / 128) for n in (7, 7, 7, 7, 6))
    assert found[0].disturbance is not None and found[0].disturbance.disturbed == 32


def test_the_results_of_the_first_samples_are_compared(workload: Workload) -> None:
    pool = Pool(lambda _, done: 1e-3 * (1 + 0.5 * (done % 3)))
    time_interleaved(pool, workload, count=2, rounds=50)
    assert pool.verified[:40] == [True] * 40
    assert len(pool.verified) == 100 and not any(pool.verified[40:])


def test_the_budget_ends_it_after_two_rounds(workload: Workload) -> None:
    found = time_interleaved(Pool(lambda _, __: 1e-3), workload, rounds=30, budget=0.0)
    assert [len(m.samples) for m in found] == [2, 2, 2]


# Three are built and run once, which takes six requests, and a round is one more.
@pytest.mark.parametrize("until", [0, 1, 6, 7])
def test_a_deadline_before_two_rounds_leaves_nothing_known(workload: Workload, until: int) -> None:
    pool = Pool(lambda _, __: 1e-3)
    assert time_interleaved(pool, workload, until=until) == []
    assert pool.dropped == (until > 0)


def test_at_a_deadline_the_complete_rounds_count(workload: Workload) -> None:
    pool = Pool(lambda _, __: 1e-3)
    found = time_interleaved(pool, workload, until=8)
    assert [(one.status, len(one.samples)) for one in found] == [(Status.OK, 2)] * 3
    assert pool.dropped == 1, "the worker is busy with a sample that nobody waits for"


def test_who_fails_is_left_out(workload: Workload) -> None:
    pool = Pool(lambda i, done: failure(lost=False) if i == 1 and done >= 2 else 1e-3)
    found = time_interleaved(pool, workload)
    assert [m.status for m in found] == [Status.OK, Status.CRASHED, Status.OK]
    assert found[1].samples == () and found[1].message == "it ended"
    assert [len(m.samples) for m in found] == [4, 0, 4]
    assert pool.workers == 1


def test_a_lost_worker_is_replaced_and_the_others_start_again(workload: Workload) -> None:
    """In a round that is lost nobody knows whose fault it was: the next ones are asked singly."""
    late = list[int]()

    def latency(identity: int, done: int) -> float | Reply:
        if identity == 1 and done >= 2:
            late.append(done)
            if len(late) != 2:  # then it runs in a new worker
                return failure(lost=True)
        return 1e-3 + 1e-6 * done

    pool = Pool(latency)
    found = time_interleaved(pool, workload)
    assert [m.status for m in found] == [Status.OK, Status.CRASHED, Status.OK]
    assert [len(m.samples) for m in found] == [4, 0, 4]
    assert pool.workers == 3
    built = [identity for kind, identity in pool.asked if kind == "build"]
    assert built == [0, 1, 2, 0, 1, 2, 0, 2]


def test_a_round_that_failed_by_chance_counts_against_nobody(workload: Workload) -> None:
    chance = [failure(lost=True)]
    pool = Pool(lambda i, done: chance.pop() if i == 1 and done == 2 and chance else 1e-3)
    found = time_interleaved(pool, workload)
    assert [(m.status, len(m.samples)) for m in found] == [(Status.OK, 4)] * 3
    assert pool.workers == 2


def test_if_all_fail_it_ends(workload: Workload) -> None:
    found = time_interleaved(Pool(lambda *_: failure(lost=True)), workload)
    assert [m.status for m in found] == [Status.CRASHED] * 3


def test_real_candidates(workload: Workload) -> None:
    good: list[IRModule] = [scheduled_matmul(workload, tile) for tile in (8, 1)]
    wrong = matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]")
    modules: list[Any] = [good[0], wrong, from_body(ABORT), good[1]]
    candidates = [Candidate(10 + number, module) for number, module in enumerate(modules)]
    with LocalCPU(workload, workers=2) as measurer:
        found = measurer.remeasure(candidates, rounds=3)
        assert [m.id for m in found] == [10, 11, 12, 13]
        assert [m.status for m in found] == [
            Status.OK,
            Status.WRONG_RESULT,
            Status.CRASHED,
            Status.OK,
        ]
        assert found[0].verified and min(len(found[place].samples) for place in (0, 3)) >= 3
        assert measurer.remeasure([]) == []
        assert next(measurer.measure(candidates[:1])).ok
        spent = measurer.verification
        assert min(spent.values()) > 0
        parts = {"references", "fill", "poison", "other draws", "compare"}
        assert set(spent) == parts


def test_without_verification_none_of_it_is_done(workload: Workload) -> None:
    with LocalCPU(workload, workers=1, verify=False) as measurer:
        found = measurer.remeasure([Candidate(0, scheduled_matmul(workload))], rounds=2)
        assert found[0].ok and not found[0].verified
        assert set(measurer.verification) <= {"fill"}
