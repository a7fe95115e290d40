"""A played kind of machine, written by the text of CONTRIBUTING: it costs its executor.

Its hosts are workers that load what other workers have built, two at once, and may be lost.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import schedlang as sl
from schedlang.targets import PooledMeasurer
from schedlang.targets.kinds import KINDS, Kind
from schedlang.targets.worker.executor import Executor, Next, Work, program_of
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.protocol import Reply, Request
from schedlang.testing.spaces import ORDINARY, small_workload
from tests.targets.pooled_contract import QUICK, PooledContract

pytestmark = pytest.mark.slow

ONE = sl.Target("cpu", cores=1)
PROGRAM = "schedlang.targets.cpu.worker"


class HostsExecutor(Executor):
    """One worker builds, to see whether programs compile; two hosts load and run them."""

    build_lanes, run_lanes, most_waiting = 1, 2, 4

    def __init__(self) -> None:
        self.builders = WorkerPool(1, 1, PROGRAM)
        self.runners = WorkerPool(2, 1, PROGRAM, first=1)

    def set_up(self) -> dict[str, Any]:
        return {"code": ONE.spec(), "memory_bytes": None, "cpus": list(ONE.cpus)}

    def rebind(self, start: Request, bind: Request) -> None:
        for pool in (self.builders, self.runners):
            pool.rebind(start, bind)

    def start(self, slot: Slot, work: Work) -> Request:
        program = program_of(work)
        assert isinstance(program, bytes)
        work.server = str(slot.serial)
        return self.build(work, program, discard=True)

    def advance(
        self, slot: Slot, work: Work, step: str, reply: Reply, ready: deque[Work]
    ) -> tuple[Work, Next]:
        if reply.lost and not work.lost_on:
            work.lost_on.append(work.server)
            ready.append(work)
            return work, None
        if step == "run":
            return work, self.requests.ran(work, reply)
        return work, self.run(work) if reply.ok else reply


class Hosts(PooledMeasurer):
    """Measures on the hosts."""

    def __init__(self, workload: sl.Workload | None, target: sl.Target, **options: Any) -> None:
        super().__init__(workload, target, HostsExecutor, **options)


@dataclass(frozen=True)
class HostsTarget(sl.Target):
    """Two hosts, which cores of this machine play."""

    name: str = "hosts"
    kind: str = field(default="hosts", init=False)
    key = "hosts"

    def default_space(self) -> sl.Space:
        return sl.default_space(ONE)

    def tvm_target(self) -> Any:
        return ONE.tvm_target()

    def check_present(self) -> None:
        """They are everywhere."""

    def measurer(self, workload: sl.Workload | None, **options: Any) -> Hosts:
        return Hosts(workload, self, **options)


@pytest.fixture(scope="module", autouse=True)
def kind() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "hosts", Kind(f"{__name__}:HostsTarget"))
        yield


@pytest.fixture(scope="module")
def hosts(kind: None) -> Iterator[Hosts]:
    target = sl.Target("hosts")
    with Hosts(small_workload(), target, run_timeout=2.0, timing=QUICK) as measurer:
        yield measurer


def test_tune_and_finals_with_kept_workers(kind: None) -> None:
    with sl.measurer("hosts") as kept:
        for workload in (small_workload(), sl.workloads.matmul(16, 32, 8)):
            result = sl.tune(workload, "hosts", trials=4, search="random", measurer=kept)
            assert all(record.verified for record in result.records)
            assert result.best.finals is not None and result.reference_latency > 0
            assert {record.target_key for record in result.records} == {"hosts"}


def test_a_network_is_tuned_on_it(kind: None) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    network = sl.import_network(model.eval(), (torch.zeros(4, 16),))
    with sl.measurer("hosts") as kept:
        result = sl.tune_network(network, "hosts", trials=6, finals=2, measurer=kept)
    assert len(result.tasks) == 2 and result.latency > 0
    for task in result.tasks:
        assert task.result is not None
        assert task.result.records and all(one.verified for one in task.result.records)


def test_the_loss_of_a_host_costs_no_candidate(hosts: Hosts) -> None:
    """Two hosts run candidates; the first that runs is killed."""
    hosts.bind(small_workload())
    lost: list[int] = []

    def kill_one() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end and not lost:
            napping = [
                slot.process.pid
                for slot, (_, step) in list(hosts._stages.running.items())
                if step == "run" and slot.process is not None
            ]
            for pid in napping[:1]:
                os.kill(pid, signal.SIGKILL)
                lost.append(pid)
            time.sleep(0.001)

    killer = threading.Thread(target=kill_one)
    killer.start()
    candidates = [sl.Candidate(n, ORDINARY.sample(small_workload(), seed=n).mod) for n in range(4)]
    found = list(hosts.measure(candidates))
    killer.join()
    assert lost and sorted(one.id for one in found) == [0, 1, 2, 3]
    assert [one.status for one in found] == [sl.Status.OK] * 4, found


class TestContract(PooledContract):
    @pytest.fixture
    def measurer(self, hosts: Hosts) -> Hosts:
        return hosts
