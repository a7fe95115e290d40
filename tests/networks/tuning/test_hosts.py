"""``tune_network(hosts=)``: tasks on several hosts at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database
from schedlang.errors import HostError
from schedlang.testing.executors import Unreliable
from schedlang.tuning.hosts import Hosts
from schedlang.tuning.hosts.messages import SEARCH
from tests.networks.tuning.test_tune_network import Table, mlp


def replayed(target: sl.Target) -> Table:
    return Table()


def tune(network: Any, hosts: Any, **options: Any) -> sl.NetworkResult:
    defaults: dict[str, Any] = {"trials": 24, "progress": False, "measurer": replayed}
    return sl.tune_network(network, hosts=hosts, **(defaults | options))


def records_of(result: sl.NetworkResult) -> list[list[str]]:
    return [
        [] if task.result is None else [one.trace_json for one in task.result.records]
        for task in result.tasks
    ]


def test_one_host_does_what_this_process_does() -> None:
    network = mlp((32, 32, 32, 16))
    expected = sl.tune_network(network, trials=24, progress=False, measurer=Table())
    with ThreadPoolExecutor(1) as pool:
        found = tune(network, pool)
    assert records_of(found) == records_of(expected)
    assert [task.history for task in found.tasks] == [task.history for task in expected.tasks]
    assert found.latency == pytest.approx(expected.latency)
    assert found.finished == expected.finished == "24 trials"
    assert [one.keeps_default for one in found.tasks] == [
        one.keeps_default for one in expected.tasks
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8])
def test_several_hosts_share_the_tasks(count: int) -> None:
    network = mlp((32, 32, 32, 16))
    with ThreadPoolExecutor(count) as pool, Database() as database:
        result = tune(network, pool, trials=64, database=database)
        runs = database.runs()
    assert result.complete and 64 <= result.trials < 64 + 16 * count
    assert all(task.trials > 0 for task in result.tasks)
    keys = [one.program_key for task in result.tasks for one in task.result.records]  # type: ignore[union-attr]
    assert len(keys) == result.trials
    assert len(runs) == len(result.tasks)


class Noted(Hosts):
    """Hosts that keep the sizes of slices, by task."""

    def submit(self, order: Any) -> None:
        """Take note of an order."""
        self.sizes: dict[str, list[int]] = getattr(self, "sizes", {})
        if order.what == SEARCH:
            self.sizes.setdefault(order.run.workload_key, []).append(order.trials)
        super().submit(order)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
def test_first_slices_are_half_as_large_where_hosts_are_many(count: int) -> None:
    network = mlp((32, 32, 16))
    with ThreadPoolExecutor(count) as pool:
        hosts = Noted(pool)
        tune(network, hosts, trials=96)
    first = sorted(sizes[0] for sizes in hosts.sizes.values())
    # The third task computes nothing, and has few trials.
    assert first == ([2, 16, 16] if count == 1 else [2, 8, 8])


@pytest.mark.slow
def test_the_same_call_goes_on_and_returns_at_once(tmp_path: Path) -> None:
    network, path = mlp((32, 32, 16)), tmp_path / "net.db"
    with ThreadPoolExecutor(2) as pool:
        first = tune(network, pool, trials=16, database=path)
        more = tune(network, pool, trials=48, database=path)
        again = tune(network, pool, trials=48, database=path)
    assert first.trials >= 16 and more.trials >= 48
    assert more.latency <= first.latency
    assert again.trials == more.trials
    assert records_of(again) == records_of(more)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [48, 20])
def test_a_call_that_died_before_its_finals_holds_them(
    trials: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All trials are stored then, or more than the next call asks for."""
    network, path = mlp((32, 32, 32, 16)), tmp_path / "net.db"

    def die(*arguments: Any) -> None:
        raise MemoryError("the driver was killed")

    with ThreadPoolExecutor(2) as pool:
        with monkeypatch.context() as patched:
            patched.setattr("schedlang.networks.hosted.HostedSession.conclude", die)
            with pytest.raises(MemoryError):
                tune(network, pool, trials=48, database=path)
        found = tune(network, pool, trials=trials, database=path)
    assert found.complete and found.trials >= 48
    assert all(task.trials for task in found.tasks)
    with Database(path) as database:
        assert all(run.outcome for run in database.runs())


@pytest.mark.slow
def test_faults_of_hosts_lose_nothing() -> None:
    network = mlp((32, 32, 16))
    with ThreadPoolExecutor(2) as pool, Database() as database:
        hosts = Hosts(Unreliable(pool, "raises"), at_once=2)
        result = tune(network, hosts, trials=48, database=database)
        proposals = [(one.run_id, one.proposal) for one in database.query() if not one.unscheduled]
    assert result.complete
    assert len(set(proposals)) == len(proposals)


def test_a_module_that_fails_names_the_host() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(HostError, match="ZeroDivisionError"):
        tune(mlp((16, 16)), pool, space=sl.Space([broken]))


@sl.module
def broken(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """A mistake of the user's."""
    raise ZeroDivisionError("a mistake")


def test_a_task_that_cannot_be_tuned_is_named() -> None:
    def refusing(target: sl.Target) -> Any:
        class Refusing(Table):
            def bind(self, workload: sl.Workload) -> None:
                if workload.name == "transpose":
                    raise sl.WorkloadError("it is refused")
                super().bind(workload)

        return Refusing()

    with ThreadPoolExecutor(1) as pool:
        result = tune(mlp((16, 16)), pool, measurer=refusing)
    assert [one.name for one in result.tasks if one.failed] == ["transpose"]
    assert result.tasks[0].trials > 0


def test_other_machines_refuse() -> None:
    target = sl.Target("cuda", arch="sm_90")
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(HostError, match="no host carried out an order"),
    ):
        tune(mlp((16, 16)), pool, target=target)
