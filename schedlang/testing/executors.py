"""The contract of an engine that carries out orders: subclass, and give the fixture.

class TestMine(ExecutorContract):
    @pytest.fixture
    def executor(self):
        with MyExecutor(2) as executor:
            yield executor

The executor is what ``tune(hosts=)`` takes, with at least two workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database
from schedlang.errors import HostError
from schedlang.measurement import Measurer
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.hosts import Hosts

_SECONDS = 60.0
FAULTS = ("dropped", "raises", "garbage", "cut off", "old", "other version", "twice", "delayed")


class Unreliable(Executor):
    """An executor some of whose replies go wrong in one of the ways of ``FAULTS``.

    Parameters
    ----------
    executor: does the work.
    fault: what goes wrong.
    every: with one of this many submissions, the first one among them.
    """

    def __init__(self, executor: Executor, fault: str, every: int = 3) -> None:
        self._executor, self._fault, self._every = executor, fault, every
        self._count = 0
        self._old: Any = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function; what it returns may go wrong on its way."""
        wrong = self._count % self._every == 0
        self._count += 1
        if wrong and self._fault == "twice":
            self._executor.submit(fn, *args, **kwargs).result(_SECONDS)
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()
        if wrong and self._fault == "dropped":
            return found
        inner = self._executor.submit(fn, *args, **kwargs)
        inner.add_done_callback(lambda done: self._pass_on(done, found, wrong))
        return found

    def _pass_on(self, done: Future[Any], found: Future[Any], wrong: bool) -> None:
        if error := done.exception():
            found.set_exception(error)
            return
        reply = done.result()
        old, self._old = self._old or reply, reply
        if wrong and self._fault == "raises":
            found.set_exception(ConnectionError("the host was lost"))
            return
        if wrong and self._fault == "delayed":
            time.sleep(0.3)
        damaged = {
            "garbage": b"\x80\x04nonsense",
            "cut off": reply[:-7],
            "old": old,
            "other version": reply.replace(b"schedlang-hosts-1", b"schedlang-hosts-0"),
        }
        found.set_result(damaged.get(self._fault, reply) if wrong else reply)


class CountedMeasurer(Measurer):
    """Measures nothing: a latency follows from the program."""

    kept = True
    reference_latency = 1.0

    def __init__(self, target: sl.Target) -> None:
        self.keep(target.key)

    def bind(self, workload: sl.Workload, problem: Any = None) -> None:
        """Measure candidates of another workload."""
        super().bind(workload)

    def measure(self, candidates: Any) -> Any:
        """Yield a measurement of each candidate."""
        for one in candidates:
            latency = 1e-6 * (1 + int(one.program_key, 16) % 1000)
            yield sl.measurement.Measurement(
                one.id, sl.measurement.Status.OK, (latency,) * 5, verified=True
            )


class ExecutorContract:
    """What an engine has to do."""

    @pytest.fixture
    def executor(self) -> Any:
        """Return the executor; a subclass gives it."""
        raise NotImplementedError

    def test_results_and_errors_come_back(self, executor: Executor) -> None:
        assert executor.submit(int, "12").result(_SECONDS) == 12
        with pytest.raises(ValueError, match="invalid literal"):
            executor.submit(int, "twelve").result(_SECONDS)

    def test_equal_calls_are_different_calls(self, executor: Executor) -> None:
        """An engine that takes functions for pure returns an old result."""
        found = [executor.submit(os.urandom, 16) for _ in range(4)]
        assert len({one.result(_SECONDS) for one in found}) == 4

    def test_a_program_is_tuned(self, executor: Executor) -> None:
        result, database = tuned(Hosts(executor, at_once=2))
        check(result, database)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_nothing_is_lost_or_stored_twice(self, executor: Executor, fault: str) -> None:
        hosts = Hosts(Unreliable(executor, fault), at_once=2, patience=0.2)
        result, database = tuned(hosts)
        check(result, database)

    def test_what_always_fails_ends_the_call(self, executor: Executor) -> None:
        hosts = Hosts(Unreliable(executor, "garbage", every=1), at_once=2)
        with pytest.raises(HostError, match="no host carried out an order"):
            tuned(hosts)


def tuned(hosts: Hosts) -> tuple[sl.TuneResult, Database]:
    """Tune a small product of matrices on hosts."""
    database = Database()
    result = sl.tune(
        small_workload(),
        space=ORDINARY,
        hosts=hosts,
        measurer=CountedMeasurer,
        trials=48,
        search="evolutionary",
        database=database,
        progress=False,
    )
    return result, database


def check(result: sl.TuneResult, database: Database, trials: int = 48) -> None:
    """Check that what hosts measured is stored once, and that the best of it won."""
    stored = [one for one in database.query() if not one.unscheduled]
    assert len(result.records) == len(stored) >= trials
    assert {one.id for one in result.records} == {one.id for one in stored}
    contents = {(one.run_id, one.proposal) for one in stored}
    assert len(contents) == len(stored), "a record was stored twice"
    assert result.best.latency == min(one.latency for one in stored if one.ok)
