"""``sl.measurer``: workers that stay between calls change nothing but the time."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.measurement.problem import Problem
from schedlang.targets import LocalCPU, PooledMeasurer
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.process import WorkerProcess
from schedlang.targets.worker.protocol import Reply
from schedlang.testing.spaces import ORDINARY, small_workload

A, B = small_workload(), sl.workloads.matmul(16, 32, 8)
ONE = sl.Target("cpu", cores=1)


@pytest.fixture(scope="module")
def kept() -> Iterator[LocalCPU]:
    with sl.measurer(ONE, workers=1) as measurer:
        assert isinstance(measurer, LocalCPU)
        yield measurer


def tune(workload: sl.Workload = A, **given: Any) -> sl.TuneResult:
    given = {"trials": 3, "search": "random", "space": ORDINARY, "finals": 0, **given}
    return sl.tune(workload, ONE, progress=False, **given)


def workers(measurer: LocalCPU) -> set[int]:
    return {slot.process.pid for slot in measurer._pool.slots if slot.process is not None}


def test_a_second_call_starts_no_worker(kept: LocalCPU) -> None:
    tune(measurer=kept)
    before = workers(kept)
    assert before
    for workload in (B, A, A):
        result = tune(workload, measurer=kept)
        assert [record.status for record in result.records] == [sl.Status.OK] * 3
        assert workers(kept) == before


def test_each_call_verifies_as_it_says(kept: LocalCPU) -> None:
    """With 6 candidates, ``"all"`` verifies each, and False none."""
    for verify, verified in (("all", True), (False, False), ("all", True)):
        result = tune(A, trials=6, verify=verify, measurer=kept)
        assert {record.verified for record in result.records} == {verified}
    # As many are verified at first, whatever other calls have found.
    assert all(record.verified for record in tune(A, measurer=kept).records)


def test_inputs_tolerance_and_reference_are_the_call_s(kept: LocalCPU) -> None:
    given = {"inputs": lambda rng: [rng.random(arg.shape, "float32") for arg in A.args[:2]]}
    for extra in ({"tolerance": 0.1}, {"reference": lambda a, b: a @ b}):
        alone, shared = tune(**given, **extra), tune(**given, **extra, measurer=kept)
        assert shared.records[0].verified
        said = [result.records[0].provenance["verification"] for result in (alone, shared)]
        assert said[0] == said[1]
    with pytest.raises(sl.WorkloadError, match="does not compute what reference= returns"):
        tune(reference=lambda a, b: a @ b + 1, measurer=kept)
    assert tune(measurer=kept).records[0].ok
    with pytest.raises(ValueError, match=r"inputs has 1 arrays, and the program reads 2"):
        tune(inputs=[np.zeros(A.args[0].shape, "float32")], measurer=kept)
    assert tune(measurer=kept).records[0].ok


def test_arrays_that_changed_between_calls_are_read_again(kept: LocalCPU) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.random(arg.shape, "float32") for arg in A.args[:2]]
    right = arrays[0] @ arrays[1]
    assert tune(inputs=arrays, reference=lambda a, b: right, measurer=kept).records[0].ok
    arrays[0] += 1
    with pytest.raises(sl.WorkloadError, match="does not compute what reference= returns"):
        tune(inputs=arrays, reference=lambda a, b: right, measurer=kept)


def test_it_is_the_same_run_with_it_and_without(kept: LocalCPU, tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    first = tune(database=database)
    again = tune(database=database, measurer=kept)
    assert again.earlier == 3 and [one.id for one in again.records] == [
        one.id for one in first.records
    ]
    longer = tune(database=database, trials=5, measurer=kept)
    assert longer.earlier == 3 and len(longer.records) == 5
    assert tune(database=database, trials=5).earlier == 5


@pytest.mark.parametrize("workload", [A, B], ids=["the same workload", "another workload"])
def test_workers_that_were_killed_between_calls_are_replaced(
    kept: LocalCPU, workload: sl.Workload
) -> None:
    tune(measurer=kept)
    before = workers(kept)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    result = tune(workload, measurer=kept)
    assert [record.status for record in result.records] == [sl.Status.OK] * 3
    assert workers(kept) and not workers(kept) & before


def test_a_worker_that_dies_while_it_goes_over_is_replaced(
    kept: LocalCPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end was not noticed before: another one takes its place."""
    tune(A, measurer=kept)
    monkeypatch.setattr(WorkerProcess, "has_ended", False)
    for pid in workers(kept):
        os.kill(pid, signal.SIGKILL)
    assert tune(B, measurer=kept).records[0].ok


@pytest.mark.filterwarnings("ignore::schedlang.InterruptedWarning")
def test_after_ctrl_c_nobody_waits_for_a_reply(
    kept: LocalCPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while the unscheduled program is timed, which is no stage of a candidate."""
    wait = WorkerPool.wait

    def interrupted(pool: WorkerPool, until: float = math.inf) -> list[tuple[Slot, Reply]]:
        asked = [slot.request.header["request"] for slot in pool.busy if slot.request]
        if "time_reference" in asked:
            raise KeyboardInterrupt
        return wait(pool, until)

    with monkeypatch.context() as patched:
        patched.setattr(WorkerPool, "wait", interrupted)
        assert tune(B, seed=1, measurer=kept).interrupted
    assert not kept._pool.busy
    result = tune(B, seed=1, measurer=kept)
    assert [record.status for record in result.records] == [sl.Status.OK] * 3


def test_one_call_uses_it_at_a_time(kept: LocalCPU) -> None:
    messages: list[str] = []

    def use(trial: object = None) -> None:
        with pytest.raises(sl.TargetError) as raised:
            tune(B, measurer=kept)
        messages.append(str(raised.value))

    def use_in_a_thread(trial: object) -> None:
        use()
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    result = tune(measurer=kept, callbacks=[use_in_a_thread])
    assert len(messages) == 6 and all("is in use" in message for message in messages)
    assert all(record.ok for record in result.records)
    assert tune(B, measurer=kept).records[0].ok


def test_another_target_is_refused(kept: LocalCPU, tmp_path: Path) -> None:
    database = tmp_path / "tune.db"
    with pytest.raises(sl.TargetError, match=r"was made for the target 'cpu/.*make one for that"):
        sl.tune(A, sl.Target("cpu", cores=2), trials=1, measurer=kept, database=database)
    assert not database.exists()
    assert tune(measurer=kept).records[0].ok


def test_after_its_end_and_before_its_beginning(tmp_path: Path) -> None:
    measurer = sl.measurer(ONE)
    with pytest.raises(sl.TargetError, match="has no workload; call bind"):
        list(measurer.measure([sl.Candidate(0, A.mod)]))
    measurer.close()
    with pytest.raises(sl.TargetError, match="is closed; make a new one"):
        tune(measurer=measurer, database=tmp_path / "tune.db")
    assert not (tmp_path / "tune.db").exists()


def test_what_each_call_says_is_no_option() -> None:
    with pytest.raises(TypeError, match=r"verify= is said by each call: tune\(..., verify=...\)"):
        sl.measurer(ONE, verify=False)
    with pytest.raises(TypeError, match="LocalCPU takes no option 'wrkers'; those of all"):
        sl.measurer(ONE, wrkers=3)


def test_a_measurer_with_settings_of_its_own_keeps_them() -> None:
    with LocalCPU(A, ONE, workers=1, verify=False) as measurer:
        assert not measurer.kept
        assert not tune(verify="all", measurer=measurer).records[0].verified
        with pytest.raises(ValueError, match="tolerance: the measurer that is given keeps its own"):
            tune(tolerance=0.1, measurer=measurer)


def test_a_problem_is_like_another_only_where_nothing_can_differ() -> None:
    assert Problem().is_like(Problem()) and not Problem().is_like(Problem(seed=1))
    assert not Problem().is_like(Problem(verify=False))
    given = Problem(reference=np.matmul)
    assert given.is_like(given) and not given.is_like(Problem(reference=np.matmul))


def test_explanations_use_it_too(kept: LocalCPU) -> None:
    # So near that rounding explains it, but not within the tolerance.
    given: dict[str, Any] = {
        "reference": lambda a, b: (a @ b) * np.float32(1 + 1e-6),
        "tolerance": 1e-9,
    }
    wrong = tune(**given, measurer=kept)
    found = sl.explain_failure(wrong.records[0], workload=A, **given, measurer=kept)
    assert found.status == sl.Status.WRONG_RESULT
    assert PooledMeasurer.kept is False and kept.kept
