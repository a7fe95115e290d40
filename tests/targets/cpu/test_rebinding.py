"""A worker goes back to a workload that it was bound to before, as it left it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from schedlang import workloads
from schedlang.measurement import Candidate, Status
from schedlang.measurement.problem import Problem
from schedlang.targets import LocalCPU, Target
from schedlang.targets.cpu.worker import BoundWorkload, BoundWorkloads, CPUWorker
from schedlang.targets.measure.draws import plain_draw
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.right_results import Results, WideResults
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker import in_process, preparation
from schedlang.targets.worker.executor import Requests, Work, program_of
from schedlang.targets.worker.preparation import LargePolicy, Preparation
from schedlang.targets.worker.protocol import Request
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Argument, Workload
from tests.targets import programs
from tests.targets.programs import matmul_variant, scheduled_matmul

WRONG = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"


class Sized(BoundWorkload):
    """A workload that takes as many bytes as its reply says."""

    @property
    def bytes(self) -> int:
        return int(self.reply["bytes"])


def sized(count: int) -> Any:
    return Sized(None, None, None, {"bytes": count})  # type: ignore[arg-type]


def test_those_put_in_longest_ago_are_dropped() -> None:
    kept = BoundWorkloads[BoundWorkload](10)
    dropped = [[name for name, _ in kept.put(name, sized(4))] for name in "abc"]
    assert dropped == [[], [], ["a"]]
    assert kept.take("a") is None
    assert kept.take("b") is not None
    assert kept.take("b") is None, "it was taken out"
    kept.put("d", sized(11))
    assert kept.take("c") is None
    assert kept.take("d") is None, "what does not fit alone is not kept"


def test_the_size_counts_every_draw() -> None:
    measurer = LocalCPU(workloads.matmul(8, 16, 32), workers=1)
    with measurer:
        binding = measurer._preparation.binding
    tensors = 4 * (8 * 32 + 32 * 16 + 8 * 16)
    bound = BoundWorkload(binding, None, None, {})  # type: ignore[arg-type]
    assert bound.bytes == tensors * (binding.draws + 4)


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The shapes of whose first arguments a worker in this process computed the right results."""
    found: list[str] = []
    original = CandidateRunner.learn

    def learn(self: CandidateRunner, *programs: Any) -> Reference:
        found.append("x".join(map(str, self._binding.args[0].shape)))
        return original(self, *programs)

    monkeypatch.setattr(CandidateRunner, "learn", learn)
    yield found


class InProcess:
    """A worker in this process, and the requests that bind it to workloads."""

    def __init__(self, *wanted: Workload) -> None:
        self.worker = CPUWorker()
        self._binds: list[Request] = []
        with LocalCPU(wanted[0], workers=1) as measurer:
            self._start, _ = measurer._binding_requests()
            for workload in wanted:
                measurer.bind(workload)
                self._binds.append(measurer._binding_requests()[1])

    def start(self) -> dict[str, Any]:
        """Bind it to the first workload."""
        cpus = list(Target("cpu").cpus)
        header = {**self._start.header, "memory_bytes": None, "cpus": cpus}
        return self._send(Request(header, self._start.blobs))

    def bind(self, place: int) -> dict[str, Any]:
        """Bind it to one of the workloads."""
        return self._send(self._binds[place])

    def statuses(self, *programs: Any) -> list[str]:
        """Build and run programs; return what they gave."""
        requests = Requests(TimingPolicy(min_repeats=2, max_repeats=3), 30.0, 10.0)
        found = []
        for number, mod in enumerate(programs):
            work = Work(Candidate(number, mod), number)
            program = program_of(work)
            assert isinstance(program, bytes)
            self._send(requests.build_of(work, program, discard=False))
            reply = self._send(requests.run(work, verify_factor=math.inf))
            found.append("ok" if reply["ok"] else reply["status"])
        return found

    def _send(self, request: Request) -> dict[str, Any]:
        return self.worker.answer(Request(dict(request.header), request.blobs))


def test_a_worker_learns_each_workload_once(learned: list[str]) -> None:
    worker = InProcess(workloads.matmul(8, 16, 32), workloads.matmul(4, 16, 32))
    replies = [worker.start()] + [worker.bind(place) for place in (1, 0, 1)]
    assert learned == ["8x32", "4x32"]
    assert all(reply["ok"] for reply in replies)
    assert replies[2]["reference_seconds"] == replies[0]["reference_seconds"]


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have no room for tensors of other workloads, only for right results."""
    monkeypatch.setattr(BoundWorkload, "bytes", property(lambda self: 1 << 40))


def test_right_results_stay_where_tensors_go(learned: list[str], forgetful: None) -> None:
    one, other = programs.matmul(), workloads.matmul(24, 16, 8)
    worker = InProcess(one, other)
    first = worker.start()
    for _ in range(2):
        assert worker.bind(1)["ok"]
        again = worker.bind(0)
        assert again["ok"]
        assert again["reference_seconds"] == first["reference_seconds"]
        found = worker.statuses(scheduled_matmul(one), matmul_variant(WRONG))
        assert found == ["ok", "wrong_result"]
    assert len(learned) == 2


def test_damaged_results_are_found_out_anew(learned: list[str], forgetful: None) -> None:
    one, other = programs.matmul(), workloads.matmul(24, 16, 8)
    worker = InProcess(one, other)
    worker.start()
    right = worker.worker._runner.reference
    assert right is not None
    worker.bind(1)
    expected = right.results[0].expected[0]
    expected.setflags(write=True)
    expected[0, 0] += 1
    assert worker.bind(0)["ok"]
    assert len(learned) == 3
    assert worker.statuses(scheduled_matmul(one)) == ["ok"]


def test_the_unscheduled_program_can_repeat_results_that_were_kept(forgetful: None) -> None:
    one, other = programs.matmul(), workloads.matmul(24, 16, 8)
    worker = InProcess(one, other)
    worker.start()
    worker.bind(1)
    worker.bind(0)
    verifier = worker.worker._runner._verifier
    assert verifier.unscheduled is not None
    assert worker.statuses(matmul_variant(WRONG)) == ["wrong_result"]
    assert verifier._unscheduled_repeats, "it was asked"


def test_what_a_binding_replaces_is_not_kept() -> None:
    measurer = LocalCPU(workloads.matmul(8, 16, 32), workers=1)
    with measurer:
        assert measurer._binding_requests(replaces=True)[1].header["replaces"]
    worker = InProcess(workloads.matmul(8, 16, 32), workloads.matmul(4, 16, 32))
    worker.start()
    worker._binds[1].header["replaces"] = True
    worker.bind(1)
    assert not worker.worker._kept._kept
    worker.bind(0)
    assert len(worker.worker._kept._kept) == 1


def test_one_thread_finds_results_where_several_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(mod: Any) -> None:
        raise RuntimeError("of TVM")

    monkeypatch.setattr(in_process, "with_parallel_loops", fail)
    worker = InProcess(programs.matmul())
    assert worker.start()["ok"]
    reply = worker._send(Request({"request": "learn"}))
    assert reply["ok"] and len(reply["reference"]["draws"]) > 1


SHARED = LargePolicy(shared_steps=1e3)


@pytest.mark.parametrize(
    ("workload", "shared"),
    [
        (programs.matmul(), True),
        (from_prim_func(programs.from_body(programs.RANDOM)["main"], name="calls"), False),
        (workloads.matmul(8, 8, 256, dtype="float16"), False),
    ],
    ids=["plain", "calls", "narrow"],
)
def test_results_are_found_once_where_they_can_be(workload: Workload, shared: bool) -> None:
    made = Preparation(workload, Target("cpu"), Problem(), SHARED, None)
    assert made.done is not shared
    assert made.binding.verifies is made.done
    assert Preparation(workload, Target("cpu"), Problem(), LargePolicy(), None).done


def test_many_bytes_of_results_do_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "_SHARED_BYTES", 4 * 64 * 64)
    made = Preparation(programs.matmul(), Target("cpu"), Problem(), SHARED, None)
    assert made.done, "each worker finds them"


def test_the_size_of_right_results_counts_masks_and_wide_ones() -> None:
    value, mask = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.bool_)
    wide = WideResults(np.zeros((4, 4)), np.ones((4, 4)), 1.0, 1.0)
    args = [Argument("A", (4, 4), "float32", "input")]
    results = Results(plain_draw(args), (value,), (mask,), wide=(wide,))
    assert Reference((results, results)).nbytes == 2 * 16 * (4 + 1 + 8 + 8)


def test_results_are_compared_with_those_of_the_right_workload() -> None:
    one, other = programs.matmul(), workloads.matmul(24, 16, 8)
    good, wrong = scheduled_matmul(one), matmul_variant(WRONG)
    quick = TimingPolicy(min_repeats=2, max_repeats=3)
    with LocalCPU(one, workers=1, verify="all", timing=quick) as measurer:
        for _ in range(2):
            found = list(measurer.measure([Candidate(0, good), Candidate(1, wrong)]))
            assert [(one.id, one.status) for one in sorted(found, key=lambda m: m.id)] == [
                (0, Status.OK),
                (1, Status.WRONG_RESULT),
            ]
            measurer.bind(other)
            [found_other] = measurer.measure([Candidate(0, other.mod)])
            assert found_other.ok and found_other.verified
            measurer.bind(one)
