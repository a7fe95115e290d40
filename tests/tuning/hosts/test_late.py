"""Orders that are late: another host gets them as well, and the first reply counts."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pytest

from schedlang.measurement.clock import Clock
from schedlang.tuning.hosts import Hosts
from schedlang.tuning.hosts.judge import HostWarning
from schedlang.tuning.hosts.messages import UNTUNABLE, Order, Reply
from tests.tuning.hosts.test_messages import an_order


class Hands(Clock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Held(Executor):
    """Keeps what it is given until ``answer``."""

    def __init__(self) -> None:
        self.given: list[tuple[int, Future[bytes]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()
        self.given.append((Order.unpack(args[0]).serial, found))
        return found

    def answer(self, serial: int, copy: int = 0) -> None:
        """Have one of the hosts that were given an order reply."""
        futures = [future for number, future in self.given if number == serial]
        futures[copy].set_result(Reply(serial, UNTUNABLE, f"host/{copy}").pack())

    def copies(self, serial: int) -> int:
        """Return how many hosts were given an order."""
        return sum(number == serial for number, _ in self.given)


class Timed(Hosts):
    """Hosts for whom time passes while the driver waits."""

    def __init__(self, engine: Executor, clock: Hands) -> None:
        self.clock = clock
        super().__init__(engine, at_once=8, patience=1.0)

    def _wait(self, seconds: float) -> list[Future[bytes]]:
        found = super()._wait(1e-3)
        self.clock.sleep(0.0 if found else min(seconds, 0.25))
        return found


class Late:
    """Hosts whose orders take as long as a test says."""

    def __init__(self) -> None:
        self.engine, clock = Held(), Hands()
        self.hosts = Timed(self.engine, clock)

    def submit(self, serial: int, task: str, trials: int = 8) -> None:
        """Give out a slice."""
        order = an_order()
        run = replace(order.run, workload_key=task)
        self.hosts.submit(replace(order, serial=serial, run=run, trials=trials))

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass, while the driver looks for replies and finds none."""
        assert self.hosts.wait(self.hosts.clock.now() + seconds) == []

    def take(self, serial: int, task: str, seconds: float, trials: int = 8) -> None:
        """Have a slice take this long."""
        self.submit(serial, task, trials)
        self.hosts.clock.sleep(seconds)
        self.engine.answer(serial)
        assert [order.serial for order, _ in self.hosts.wait()] == [serial]


@pytest.fixture
def late() -> Late:
    return Late()


def test_after_twice_the_usual_time_and_the_patience(late: Late) -> None:
    for serial in range(3):
        late.take(serial, "a", 4.0)
    late.submit(3, "a")
    late.pass_seconds(8.9)
    assert late.engine.copies(3) == 1
    late.pass_seconds(0.3)
    assert late.engine.copies(3) == 2


def test_two_hosts_are_busy_with_it_until_the_first_reply(late: Late) -> None:
    late.take(0, "a", 1.0)
    late.submit(1, "a")
    assert late.hosts.free == 7
    late.pass_seconds(3.5)
    assert (late.hosts.free, late.hosts.flying) == (6, 1)
    late.engine.answer(1, copy=1)
    [(order, reply)] = late.hosts.wait()
    assert (order.serial, reply.name) == (1, "host/1")
    assert (late.hosts.free, late.hosts.flying) == (8, 0)
    late.engine.answer(1, copy=0)
    late.pass_seconds(0.5)


def test_slices_are_compared_by_their_trials(late: Late) -> None:
    late.take(0, "a", 1.0, trials=4)
    late.submit(1, "a", trials=16)
    late.pass_seconds(8.5)
    assert late.engine.copies(1) == 1
    late.pass_seconds(1.0)
    assert late.engine.copies(1) == 2


def test_a_first_slice_is_compared_with_the_slowest_tenth(late: Late) -> None:
    for serial in range(9):
        late.take(serial, f"task {serial}", 1.0)
    late.take(9, "heavy", 10.0)
    late.submit(10, "another")
    late.pass_seconds(20.5)
    assert late.engine.copies(10) == 1
    late.pass_seconds(1.0)
    assert late.engine.copies(10) == 2


def test_each_copy_waits_twice_as_long_and_all_silent_is_told(late: Late) -> None:
    late.take(0, "a", 1.0)
    late.submit(1, "a")
    copies = []
    for _ in range(14):
        late.pass_seconds(1.0)
        copies.append(late.engine.copies(1))
    assert copies == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4]
    with pytest.warns(HostWarning, match="no host has answered"):
        late.pass_seconds(20.0)
    assert late.engine.copies(1) == 4


def test_while_none_has_come_back_hosts_may_be_starting(late: Late) -> None:
    late.submit(0, "a")
    late.pass_seconds(20.0)
    assert late.engine.copies(0) == 1
    late.pass_seconds(2.0)
    assert late.engine.copies(0) == 2
