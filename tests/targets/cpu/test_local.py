from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tvm.ir import IRModule

from schedlang.errors import TargetError, WorkloadError
from schedlang.host import children_of
from schedlang.measurement import Status
from schedlang.targets import LocalCPU, Target
from schedlang.workloads.workload import Workload
from tests.targets import programs
from tests.targets.pooled_contract import QUICK, PooledContract, measured, never_a_number, workers
from tests.targets.programs import from_body, scheduled_matmul


@pytest.fixture(scope="module")
def workload() -> Workload:
    return programs.matmul()


@pytest.fixture(scope="module")
def good(workload: Workload) -> IRModule:
    return scheduled_matmul(workload)


@pytest.fixture(scope="module")
def pair(workload: Workload) -> Iterator[LocalCPU]:
    """Two workers, verifying what could win."""
    with LocalCPU(workload, workers=2, run_timeout=2.0, timing=QUICK) as measurer:
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


def test_both_workers_build_and_parallel_loops_have_all_cores(
    pair: LocalCPU, good: IRModule, worker_pids: Callable[[int], set[int]]
) -> None:
    assert all(one.ok for one in measured(pair, good, good).values())
    mine = workers(pair)
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


def test_a_build_that_does_not_end(strict: LocalCPU, good: IRModule) -> None:
    found = measured(strict, good, from_body(programs.ENDLESS_UNROLL), good)
    assert found[1].status is Status.BUILD_TIMEOUT
    assert found[1].message == "not done within 3 s"
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


class TestContract(PooledContract):
    @pytest.fixture
    def measurer(self, pair: LocalCPU) -> LocalCPU:
        return pair
