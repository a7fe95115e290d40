"""A worker goes back to a workload that it was bound to before, as it left it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from schedlang import workloads
from schedlang.measurement import Candidate, Status
from schedlang.targets import LocalCPU, Target
from schedlang.targets.cpu.worker import Bound, BoundWorkloads, CPUWorker
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.request import Request
from tests.targets import programs
from tests.targets.programs import matmul_variant, scheduled_matmul

WRONG = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"


class Sized(Bound):
    """A workload that takes as many bytes as its reply says."""

    @property
    def bytes(self) -> int:
        return int(self.reply["bytes"])


def sized(count: int) -> Any:
    return Sized(None, None, None, {"bytes": count})  # type: ignore[arg-type]


def test_those_put_in_longest_ago_are_dropped() -> None:
    kept = BoundWorkloads(10)
    for name in "abc":
        kept.put(name, sized(4))
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
    bound = Bound(binding, None, None, {})  # type: ignore[arg-type]
    assert bound.bytes == tensors * (binding.draws + 4)


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of workloads whose right results a worker in this process computed."""
    found: list[str] = []
    original = CPUWorker.bind

    def bind(self: CPUWorker, binding: Any) -> dict[str, Any]:
        found.append("x".join(map(str, binding.args[0].shape)))
        return original(self, binding)

    monkeypatch.setattr(CPUWorker, "bind", bind)
    yield found


def test_a_worker_learns_each_workload_once(learned: list[str]) -> None:
    worker = CPUWorker()
    measurer = LocalCPU(workloads.matmul(8, 16, 32), workers=1)
    with measurer:
        first, bind_first = measurer._binding_requests()
        measurer.bind(workloads.matmul(4, 16, 32))
        _, bind_second = measurer._binding_requests()
    set_up = {**first.header, "memory_bytes": None, "cpus": list(Target("cpu").cpus)}

    def send(header: dict[str, Any], blobs: tuple[bytes, ...]) -> dict[str, Any]:
        return worker.answer(Request(dict(header), blobs))

    replies = [send(set_up, first.blobs)]
    replies += [send(one.header, one.blobs) for one in (bind_second, bind_first, bind_second)]
    assert learned == ["8x32", "4x32"]
    assert all(reply["ok"] for reply in replies)
    assert replies[2]["reference_seconds"] == replies[0]["reference_seconds"]


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
