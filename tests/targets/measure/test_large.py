"""Large workloads: the right results come from a schedule that a part of the program checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from schedlang import workloads
from schedlang.errors import WorkloadError
from schedlang.measurement import Status
from schedlang.measurement.problem import Problem
from schedlang.spaces.space import Space
from schedlang.targets import Target
from schedlang.targets.errors import Fault
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import plain_draw
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.right_results import Results
from schedlang.targets.measure.runner import CandidateRunner
from schedlang.targets.worker.executor import argument_bytes, fitting_workers, worker_bytes
from schedlang.targets.worker.preparation import LargePolicy, find_reference
from schedlang.targets.worker.protocol import Reply
from schedlang.tvm.analysis.partial_results import window_of
from schedlang.tvm.program import from_json, structurally_equal
from schedlang.workloads import from_prim_func
from tests.targets.measure.test_runner import Bench, bench_of
from tests.targets.programs import from_body, matmul, matmul_variant, scheduled_matmul

WORKLOAD = matmul()
POLICY = LargePolicy(steps=1e5, window_steps=2e4, schedules=3, schedule_seconds=5.0)
SPACE: Space = Target("cpu").default_space()
GIGABYTE = 10**9


class FakeWorker:
    """Learns from the schedule with a given number; None for the unscheduled program."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Sequence[bytes], float]] = []

    def learn(self, blobs: Sequence[bytes], seconds: float) -> Reply | None:
        self.asked.append((blobs, seconds))
        answer = self.answers.pop(0)
        if answer == "late":
            return None
        if answer != "ok":
            return Reply.refusal(answer, "it failed")
        ones = Results(plain_draw(WORKLOAD.args), (np.ones((64, 64), "float32"),), (None,))
        header, results = Reference((ones,), 0.5).pack()
        return Reply({"ok": True, "reference": header}, blobs=tuple(results))


def test_the_size_that_counts_is_that_of_the_unscheduled_program() -> None:
    assert POLICY.is_large(WORKLOAD) and not LargePolicy().is_large(WORKLOAD)
    assert LargePolicy().is_large(workloads.matmul(4096, 4096, 4096))
    assert not LargePolicy().is_large(workloads.matmul(1024, 1024, 1024))


def test_the_first_schedule_that_passes_gives_the_results() -> None:
    worker = FakeWorker(Status.WRONG_RESULT, "", "ok")
    found = find_reference(worker.learn, WORKLOAD, SPACE, POLICY, str)
    assert found is not None
    reference, unscheduled = found
    assert not unscheduled and reference.seconds == 0.5
    assert reference.results[0].expected[0].shape == (64, 64)
    assert [seconds for _, seconds in worker.asked] == [5.0, 5.0, 10.0]
    part = window_of(WORKLOAD.mod, POLICY.window_steps)
    assert part is not None
    for blobs, _ in worker.asked:
        assert structurally_equal(from_json(blobs[1].decode()), part)


def test_where_none_passes_the_unscheduled_program_runs() -> None:
    worker = FakeWorker(*[Status.CRASHED] * POLICY.schedules, "ok")
    found = find_reference(worker.learn, WORKLOAD, SPACE, POLICY, str)
    assert found is not None and found[1] and worker.asked[-1][0] == ()


def test_where_nothing_gives_results_the_user_is_asked_for_them() -> None:
    worker = FakeWorker(*[Status.CRASHED] * (POLICY.schedules + 1))
    with pytest.raises(
        WorkloadError, match="cannot be the reference: it failed; give .*reference="
    ):
        find_reference(worker.learn, WORKLOAD, SPACE, POLICY, str)


def test_at_the_deadline_nothing_more_is_tried() -> None:
    worker = FakeWorker(Status.WRONG_RESULT, "late")
    assert find_reference(worker.learn, WORKLOAD, SPACE, POLICY, str) is None
    assert len(worker.asked) == 2


@pytest.fixture
def bench() -> Bench:
    return bench_of(WORKLOAD)


def learn(bench: Bench, update: str | None) -> Reference:
    compiled = partial(bench._backend.compile)
    schedule = scheduled_matmul(WORKLOAD) if update is None else matmul_variant(update)
    part = window_of(WORKLOAD.mod, POLICY.window_steps)
    assert part is not None
    return bench._runner.learn_from(compiled(schedule), compiled(part))


def test_a_right_schedule_gives_the_results_of_the_whole_program(bench: Bench) -> None:
    right = bench._runner.reference
    found = learn(bench, None)
    assert right is not None and found.seconds > 0
    [one] = found.results
    np.testing.assert_allclose(one.expected[0], right.results[0].expected[0], rtol=1e-5, atol=1e-5)


def test_a_wrong_schedule_gives_none(bench: Bench) -> None:
    right = bench._runner.reference
    with pytest.raises(Fault, match=r"output 0 \(float32\): .* differ") as caught:
        learn(bench, "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]")
    assert caught.value.status is Status.WRONG_RESULT
    assert bench._runner.reference is right


def test_a_schedule_that_leaves_the_last_row_gives_none(bench: Bench) -> None:
    with pytest.raises(Fault):
        learn(
            bench,
            "C[vi, vj] = T.if_then_else(vi < 63, C[vi, vj] + A[vi, vk] * B[vk, vj], T.float32(0))",
        )


BOUNDED = """
for i, j, k in T.grid(64, 64, 64):
    with T.sblock("P"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + {}
"""


@pytest.mark.parametrize(
    ("term", "unreached"),
    [
        ("T.min(A[vi, vk] * B[vk, vj], T.float32(70))", ()),
        (
            "T.max(A[vi, vk] * A[vi, vk], T.float32(-1)) * B[vk, vj]",
            ("block 'P': no input has A[vi, vk] * A[vi, vk] < -1",),
        ),
    ],
)
def test_a_schedule_gives_results_on_other_sides_too(term: str, unreached: tuple[str]) -> None:
    workload = from_prim_func(from_body(BOUNDED.format(term))["main"])
    bench = bench_of(workload)
    part = window_of(workload.mod, POLICY.window_steps)
    assert part is not None
    compiled = bench._backend.compile
    found = bench._runner.learn_from(compiled(workload.mod), compiled(part))
    assert bench._runner.unreached == unreached
    assert len(found.results) == (1 if unreached else 2)
    again = replace(
        Binding.of(workload, Target("cpu"), Problem(), verifies=True, draws=1),
        reference=found,
    )
    other = CandidateRunner(bench._backend, Binding.unpack(*again.pack()))
    assert other.unreached == unreached and other.reference is not None
    assert [one.draw for one in other.reference.results] == [one.draw for one in found.results]


def test_as_many_workers_as_memory_has_room_for() -> None:
    large = workloads.matmul(8192, 8192, 8192)
    once = worker_bytes(large)
    assert once > 2 * sum(argument_bytes(arg.shape, arg.dtype) for arg in large.args)
    assert fitting_workers(large, 4, None) == 4
    assert fitting_workers(large, 4, 100 * GIGABYTE) == 4
    assert fitting_workers(large, 4, 3 * once) == 2
    assert fitting_workers(WORKLOAD, 16, GIGABYTE) == 16  # the tensors are small


def test_a_workload_without_room_is_told_with_its_size() -> None:
    huge = workloads.matmul(60000, 60000, 60000)
    with pytest.raises(WorkloadError, match=r"about \d+ GB .* 16 GB are free .*: A 14\.4 GB"):
        fitting_workers(huge, 2, 16 * GIGABYTE)
