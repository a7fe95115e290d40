"""Hosts of whose replies every third is wrong: calls go on, as others come back."""

from __future__ import annotations

import random
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pytest

from schedlang.database.parts import RunPart
from schedlang.errors import HostError
from schedlang.tuning.hosts import Hosts
from schedlang.tuning.hosts.frames import deflate
from schedlang.tuning.hosts.messages import MEASURED, REFUSED, HostReply, Order
from tests.database.plausible import make_run
from tests.tuning.fake_time import Played
from tests.tuning.hosts.test_messages import an_order

pytestmark = pytest.mark.filterwarnings("ignore::schedlang.tuning.hosts.host_speed.HostWarning")

ORDERS = 24


class Workers(Executor):
    """Two hosts that take one to three seconds of a clock that is set by hand for an order.

    Parameters
    ----------
    seed: of how long orders take, and which replies are wrong.
    named: whether a wrong reply says who sent it.
    never: number of an order that always fails.
    """

    def __init__(self, seed: int, *, named: bool, never: int = -1) -> None:
        self.clock = Played()
        self.submitted = [0] * ORDERS
        self._random, self._named, self._never = random.Random(seed), named, never
        self._free = [0.0, 0.0]
        self._due: list[tuple[float, Future[bytes], bytes]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give an order to the host that is free first."""
        order = Order.unpack(args[0])
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()
        self.submitted[order.serial] += 1
        host = self._free.index(min(self._free))
        name, seconds = f"host/{host}", self._random.uniform(1.0, 3.0)
        part = RunPart(replace(make_run(id=5), state_asks=0))
        reply = HostReply(order.serial, MEASURED, name, part=part, records=deflate("[]"))
        if name in order.apart:
            reply, seconds = HostReply(order.serial, REFUSED, name, message="it is set apart"), 0.2
        self._free[host] = max(self._free[host], self.clock.now()) + seconds
        packed = reply.pack()
        if self._random.random() < 1 / 3 or order.serial == self._never:
            packed = replace(reply, serial=77).pack() if self._named else b"nonsense"
        self._due.append((self._free[host], found, packed))
        return found

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass: replies come back."""
        self.clock.sleep(seconds)
        due, self._due = self._due, []
        for one in due:
            if one[0] <= self.clock.now():
                one[1].set_result(one[2])
            else:
                self._due.append(one)


class Timed(Hosts):
    """Hosts for whom time passes while the driver waits."""

    def __init__(self, workers: Workers) -> None:
        self.clock, self._workers = workers.clock, workers
        super().__init__(workers, at_once=2)

    def _wait(self, seconds: float) -> list[Future[bytes]]:
        found = super()._wait(1e-4)
        if not found:
            self._workers.pass_seconds(0.1)
        return found


def carry_out_all(workers: Workers) -> list[int]:
    """Have the hosts carry out all orders, and return their numbers as they came back."""
    hosts, found, given = Timed(workers), [], 0
    while len(found) < ORDERS:
        while hosts.free and given < ORDERS:
            hosts.submit(replace(an_order(), serial=given))
            given += 1
        found += [order.serial for order, _ in hosts.wait()]
    return found


@pytest.mark.parametrize("named", [True, False])
def test_calls_go_on_while_orders_come_back(named: bool) -> None:
    """Some order fails four times in a row in one call of five."""
    most = 0
    for seed in range(12):
        workers = Workers(seed, named=named)
        assert sorted(carry_out_all(workers)) == list(range(ORDERS))
        most = max(most, *workers.submitted)
    assert most > 4


def test_an_order_that_always_fails_ends_the_call() -> None:
    workers = Workers(0, named=False, never=5)
    with pytest.raises(HostError, match=r"no host carried out an order, in 1\d attempts"):
        carry_out_all(workers)
    assert max(workers.submitted) == workers.submitted[5] < 40
