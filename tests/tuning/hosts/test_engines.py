"""Engines that carry out orders, and what goes wrong with them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

import schedlang as sl
from schedlang.errors import HostError
from schedlang.testing.executors import CountedMeasurer, ExecutorContract, check, tuned
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.hosts import Hosts
from tests.tuning.hosts.replaying import WORKLOAD, threads, tune, tune_slices

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["schedlang.testing.executors"])


def processes(count: int = 2) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=FORKSERVER)


class TestThreads(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        with ThreadPoolExecutor(2) as pool:
            yield pool


@pytest.mark.slow
class TestProcesses(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        with processes() as pool:
            yield pool


@pytest.mark.slow
class TestDask(ExecutorContract):
    @pytest.fixture(scope="class")
    def client(self) -> Iterator[Any]:
        distributed = pytest.importorskip("distributed")
        with (
            mock.patch.dict(os.environ),  # which Dask changes for good
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client

    @pytest.fixture
    def executor(self, client: Any) -> Executor:
        made: Executor = client.get_executor(pure=False, retries=0)
        return made

    def test_a_client_is_an_engine(self, client: Any) -> None:
        hosts = Hosts(client)
        assert hosts.at_once == 2
        check(*tuned(hosts))


@pytest.mark.slow
class TestRay(ExecutorContract):
    @pytest.fixture(scope="class")
    def executor(self) -> Iterator[Executor]:
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        with sl.RayExecutor(2) as pool:
            yield pool
        ray.shutdown()


@pytest.mark.slow
def test_hosts_that_are_killed_lose_nothing() -> None:
    """A pool breaks with each of them; a function makes another one."""
    killed = []

    def kill(trial: sl.Trial) -> None:
        if trial.trials in (8, 24):
            host = int(trial.record.provenance["host"].rpartition("/")[2])
            os.kill(host, signal.SIGKILL)
            killed.append(host)

    with sl.Database() as database:
        result = sl.tune(
            small_workload(),
            space=ORDINARY,
            hosts=processes,
            measurer=CountedMeasurer,
            trials=48,
            database=database,
            callbacks=[kill],
            progress=False,
        )
        assert len(set(killed)) == 2
        check(result, database)


def test_a_broken_executor_ends_the_call_and_keeps_what_was_measured() -> None:
    def kill(trial: sl.Trial) -> None:
        if trial.trials == 8:
            os.kill(int(trial.record.provenance["host"].rpartition("/")[2]), signal.SIGKILL)

    with processes() as pool, pytest.raises(HostError, match="give hosts=a function") as raised:
        sl.tune(
            small_workload(),
            space=ORDINARY,
            hosts=pool,
            measurer=CountedMeasurer,
            trials=48,
            callbacks=[kill],
            progress=False,
        )
    assert len(raised.value.result.records) >= 8  # type: ignore[attr-defined]


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(TypeError, match="hosts is an executor"):
        tune("localhost")
    with pytest.raises(TypeError, match="returned a list"):
        tune(list)

    class Silent(ThreadPoolExecutor):
        def __init__(self) -> None:
            super().__init__(1)
            del self._max_workers

    with pytest.raises(ValueError, match="give schedlang.Hosts"):
        tune(Silent())


def test_what_hosts_make_themselves_cannot_be_given() -> None:
    with threads() as pool:
        with pytest.raises(TypeError, match="give a function that makes one on each host"):
            tune(pool, measurer=CountedMeasurer(sl.Target("cpu")))
        with pytest.raises(ValueError, match="give its class"):
            tune_slices(pool, search=sl.search.Random(ORDINARY, WORKLOAD))
        space = sl.default_space()
        made = sl.search.Random(space, WORKLOAD)
        assert len(tune(pool, search=made, space=space).records) == 24


@pytest.mark.parametrize(
    "options", [{"at_once": 0}, {"attempts": 0}, {"patience": 0}, {"at_once": 2.0}]
)
def test_limits_are_checked(options: dict[str, Any]) -> None:
    with threads() as pool, pytest.raises(ValueError, match=next(iter(options))):
        Hosts(pool, **options)
