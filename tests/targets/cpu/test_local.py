from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tvm.ir import IRModule

from schedlang import workloads
from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets import LocalCPU, Target
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.guard import children_of
from schedlang.testing.measurers import MeasurerContract
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets import programs
from tests.targets.programs import from_body, matmul_variant, scheduled_matmul

WRONG = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"
QUICK = TimingPolicy(min_repeats=2, max_repeats=3)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return programs.matmul()


@pytest.fixture(scope="module")
def good(workload: Workload) -> IRModule:
    return scheduled_matmul(workload)


@pytest.fixture(scope="module")
def pair(workload: Workload) -> Iterator[LocalCPU]:
    """Two workers, verifying what could win."""
    with LocalCPU(workload, workers=2) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def strict(workload: Workload) -> Iterator[LocalCPU]:
    """One worker with tight limits, verifying everything."""
    with LocalCPU(
        workload,
        workers=1,
        verify="all",
        build_timeout=3.0,
        run_timeout=2.0,
        memory_bytes=2 << 30,
        timing=QUICK,
    ) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def for_contract(workload: Workload) -> Iterator[LocalCPU]:
    with LocalCPU(workload, workers=2, timing=QUICK) as measurer:
        yield measurer


class TestContract(MeasurerContract):
    @pytest.fixture
    def measurer(self, for_contract: LocalCPU) -> LocalCPU:
        return for_contract


def measured(measurer: LocalCPU, *modules: IRModule) -> dict[int, Measurement]:
    candidates = [Candidate(number, module) for number, module in enumerate(modules)]
    found = list(measurer.measure(candidates))
    assert sorted(measurement.id for measurement in found) == list(range(len(modules)))
    return {measurement.id: measurement for measurement in found}


def test_right_schedules_are_measured_and_verified(pair: LocalCPU, workload: Workload) -> None:
    tiles = [scheduled_matmul(workload, tile) for tile in (1, 2, 4, 8)]
    found = measured(pair, *tiles)
    for measurement in found.values():
        assert measurement.status is Status.OK, measurement.message
        assert measurement.verified
        assert measurement.latency > 0
        assert measurement.build_seconds > 0 and measurement.run_seconds > 0
        assert measurement.message == measurement.stderr == ""
        assert [one.activity for one in measurement.phases] == ["build", "run", "verify"]
        spent = sum(one.end - one.begin for one in measurement.phases)
        assert 0 < spent <= measurement.build_seconds + measurement.run_seconds
    assert {one.worker for one in found.values()} <= {0, 1}
    for worker in (0, 1):
        own = sorted(p for one in found.values() if one.worker == worker for p in one.phases)
        times = sorted((phase.begin, phase.end) for phase in own)
        assert all(a[1] <= b[0] + 1e-3 for a, b in zip(times, times[1:], strict=False))
    assert pair.best_so_far == min(measurement.latency for measurement in found.values())


def test_both_workers_build_and_parallel_loops_have_all_cores(
    pair: LocalCPU, worker_pids: Callable[[int], set[int]]
) -> None:
    mine = {slot.process.pid for slot in pair._pool.slots if slot.process is not None}
    assert len(mine) == 2 and mine <= worker_pids(os.getpid())
    assert all(os.getsid(pid) == os.getpgid(pid) == pid for pid in mine)
    cores = Target("cpu").cpus
    for pid in mine:
        # TVM's pool: one bound thread on every core but the first, which the caller works on.
        bound = {
            int(text)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for line in (task / "status").read_text().splitlines()
            if line.startswith("Cpus_allowed_list:") and (text := line.split()[1]).isdigit()
        }
        assert bound >= set(cores[1:])


@pytest.mark.skipif(Target("cpu").cores < 2, reason="needs two cores")
def test_a_wrong_thread_count_is_refused(workload: Workload, good: IRModule) -> None:
    with LocalCPU(workload, workers=1) as measurer:
        del measurer._pool.start.header["cpus"][1:]
        with pytest.raises(TargetError, match="use 1 threads, and the target has"):
            measured(measurer, good)


def test_nothing_to_measure(pair: LocalCPU) -> None:
    assert measured(pair) == {}


def test_an_abandoned_iteration_leaves_nothing_behind(pair: LocalCPU, good: IRModule) -> None:
    iteration = pair.measure([Candidate(number, good) for number in range(4)])
    assert next(iteration).ok
    iteration.close()  # type: ignore[attr-defined]
    assert all(slot.idle for slot in pair._pool.slots)
    assert all(m.ok for m in measured(pair, good, good).values())


def test_workers_outlive_the_thread_that_started_them(workload: Workload, good: IRModule) -> None:
    with LocalCPU(workload, workers=1, timing=QUICK) as measurer:
        thread = threading.Thread(target=measured, args=(measurer, good))
        thread.start()
        thread.join()
        before = measurer._pool.slots[0].process
        assert measured(measurer, good)[0].ok
        assert measurer._pool.slots[0].process is before is not None


def test_a_worker_is_replaced_after_its_share(workload: Workload, good: IRModule) -> None:
    with LocalCPU(workload, workers=1, recycle_after=2, verify=False, timing=QUICK) as measurer:
        pids = []
        for _ in range(2):
            measurement = measured(measurer, good)[0]
            assert measurement.ok and not measurement.verified
            slot = measurer._pool.slots[0]
            assert slot.process is not None
            pids.append(slot.process.pid)
        assert pids[0] != pids[1]


def test_the_unscheduled_program_can_be_timed(pair: LocalCPU) -> None:
    assert pair.reference_latency == pair.reference_latency > 0


def test_running_workers_go_over_to_another_workload(workload: Workload, good: IRModule) -> None:
    other = workloads.matmul(16, 24, 8)
    with LocalCPU(workload, workers=2, verify="all", timing=QUICK) as measurer:
        assert all(m.verified for m in measured(measurer, good, good).values())
        before = pids(measurer)
        assert len(before) == 2
        measurer.bind(other)
        assert measurer.workload is other and measurer.best_so_far is None
        found = measured(measurer, other.mod, other.mod)
        assert all(m.verified for m in found.values()), found
        assert measurer.reference_latency > 0
        # Several at once: the workers are not lost while they are on their way.
        for there in (workload, other, workload):
            measurer.bind(there)
        found = measured(measurer, good, matmul_variant(WRONG), good)
        assert found[0].verified and found[2].verified
        assert found[1].status is Status.WRONG_RESULT
        assert pids(measurer) == before


def test_a_workload_that_cannot_be_the_reference_leaves_the_measurer_usable(
    workload: Workload, good: IRModule
) -> None:
    with LocalCPU(workload, workers=1, timing=QUICK) as measurer:
        assert measured(measurer, good)[0].ok
        measurer.bind(never_a_number())
        with pytest.raises(WorkloadError, match="gives NaN on random inputs"):
            measured(measurer, measurer.workload.mod)
        measurer.bind(workload)
        assert measured(measurer, good)[0].verified


def pids(measurer: LocalCPU) -> set[int]:
    return {slot.process.pid for slot in measurer._pool.slots if slot.process is not None}


def test_a_wrong_winner_is_refused(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, good, matmul_variant(WRONG))
    assert found[0].ok and found[0].verified
    assert found[1].status is Status.WRONG_RESULT
    assert found[1].samples == ()
    assert re.search(r"\d{4} of 4096 elements differ", found[1].message)


def test_what_tvm_refuses_is_a_build_error(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, from_body(programs.UNBUILDABLE), good)
    assert found[0].status is Status.BUILD_ERROR
    assert "reduce_combiner" in found[0].message and "\n" not in found[0].message
    assert found[1].ok


def test_a_build_that_does_not_end(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, good, from_body(programs.ENDLESS_UNROLL), good)
    assert found[1].status is Status.BUILD_TIMEOUT
    assert found[1].message == "not done within 3 s"
    assert found[0].ok and found[2].ok


def test_a_run_that_does_not_end(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, from_body(programs.SLEEP), good)
    assert found[0].status is Status.RUN_TIMEOUT
    assert found[0].message == "not done within 2 s"
    assert found[1].ok


def test_a_crash_names_its_signal(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, good, from_body(programs.ABORT), good)
    assert found[1].status is Status.CRASHED
    assert found[1].message == "the worker ended with SIGABRT"
    assert found[0].ok and found[2].ok


def test_a_program_is_not_blamed_for_what_another_did_to_its_worker(strict: LocalCPU) -> None:
    found = measured(strict, from_body(programs.MARK), from_body(programs.DIE_IF_MARKED))
    assert found[0].status is Status.WRONG_RESULT
    # Without the mark it lives, and computes nothing.
    assert found[1].status is Status.WRONG_RESULT


def test_children_of_a_program_die_with_its_worker(
    workload: Workload, survivors: Callable[[set[int]], set[int]]
) -> None:
    with LocalCPU(workload, workers=1, run_timeout=2.0, verify=False) as measurer:
        assert measured(measurer, workload.mod)[0].ok
        process = measurer._pool.slots[0].process
        assert process is not None
        family: set[int] = set()
        watcher = threading.Thread(target=lambda: family.update(_wait_for_children(process.pid)))
        watcher.start()
        found = measured(measurer, from_body(programs.START_DAEMON + programs.SLEEP))
        watcher.join()
        assert found[0].status is Status.RUN_TIMEOUT
        assert family and survivors(family) == set()


def _wait_for_children(parent: int) -> set[int]:
    for _ in range(1000):
        if found := children_of(parent):
            return found
        time.sleep(0.005)
    return set()


def test_a_flood_of_messages_keeps_its_tail(strict: LocalCPU) -> None:
    found = measured(strict, from_body(programs.FLOOD))
    assert found[0].status is Status.CRASHED
    assert found[0].stderr.endswith("flood\n")
    assert 4000 < len(found[0].stderr) <= 4096


def test_printing_does_not_disturb_the_protocol(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, from_body(programs.PRINT), good)
    assert found[0].status is Status.WRONG_RESULT
    assert "noise\n" in found[0].stderr
    assert found[1].ok


def test_too_much_memory(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, from_body(programs.HUGE_BUFFER), good)
    assert found[0].status is Status.OUT_OF_MEMORY
    assert found[1].ok


def test_a_worker_that_is_killed_from_outside_costs_no_candidate(
    strict: LocalCPU, good: IRModule
) -> None:
    assert measured(strict, good)[0].ok
    process = strict._pool.slots[0].process
    assert process is not None
    os.kill(process.pid, 9)
    assert measured(strict, good)[0].ok


def test_no_process_is_left_after_close(
    workload: Workload,
    good: IRModule,
    worker_pids: Callable[[int], set[int]],
    survivors: Callable[[set[int]], set[int]],
) -> None:
    others = worker_pids(os.getpid())
    with LocalCPU(workload, workers=2, timing=QUICK) as measurer:
        assert all(m.ok for m in measured(measurer, good, good).values())
        mine = worker_pids(os.getpid()) - others
        assert len(mine) == 2
    assert survivors(mine) == set()
    measurer.close()
    with pytest.raises(TargetError, match="closed"):
        measured(measurer, good)


def never_a_number() -> Workload:
    signature = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")'
    body = """
for i in T.serial(8):
    with T.sblock("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = T.log(T.float32(-1) - A[vi] * A[vi])
"""
    return from_prim_func(from_body(body, signature)["main"])


def test_a_program_that_cannot_be_the_reference_ends_it() -> None:
    workload = never_a_number()
    with LocalCPU(workload, workers=1) as measurer:
        with pytest.raises(WorkloadError, match="gives NaN on random inputs"):
            measured(measurer, workload.mod)


def test_wrong_settings_are_refused(workload: Workload) -> None:
    with pytest.raises(TargetError, match="workers=0"):
        LocalCPU(workload, workers=0)
    with pytest.raises(ValueError, match="verify='some'; choose True"):
        LocalCPU(workload, verify="some")  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="unknown target 'tpu'"):
        LocalCPU(workload, "tpu")


def test_a_worker_that_does_not_start_is_an_error(
    workload: Workload, good: IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCPU(workload, workers=1, seed=-1) as measurer:  # refused by the random generator
        with pytest.raises(TargetError, match="did not start: worker: ValueError: .*non-negative"):
            measured(measurer, good)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with LocalCPU(workload, workers=1) as measurer:
        with pytest.raises(TargetError, match="did not start: the worker ended with exit status 1"):
            measured(measurer, good)


def test_a_worker_has_a_share_of_the_memory_and_is_killed_first(
    workload: Workload, good: IRModule
) -> None:
    with LocalCPU(workload, workers=1, timing=QUICK) as measurer:
        assert measured(measurer, good)[0].ok
        process = measurer._pool.slots[0].process
        assert process is not None
        proc = Path(f"/proc/{process.pid}")
        [limit] = [
            line for line in (proc / "limits").read_text().splitlines() if "data size" in line
        ]
        assert int(limit.split()[3]) >= 2 << 30
        assert (proc / "oom_score_adj").read_text() == "1000\n"
