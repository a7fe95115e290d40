"""Orders that are late: another host gets them as well, and the first reply counts."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pytest

from schedlang.database.parts import RunPart
from schedlang.errors import HostError, HostWarning
from schedlang.tuning.hosts import Hosts
from schedlang.tuning.hosts.frames import deflate
from schedlang.tuning.hosts.messages import FAILED, MEASURED, UNTUNABLE, HostReply, Order
from tests.database.plausible import make_run
from tests.tuning.fake_time import Played
from tests.tuning.hosts.test_messages import an_order

pytestmark = pytest.mark.filterwarnings("ignore::schedlang.tuning.hosts.host_speed.HostWarning")


class Held(Executor):
    """Keeps what it is given until ``answer``."""

    def __init__(self) -> None:
        self.given: list[tuple[int, Future[bytes]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()
        self.given.append((Order.unpack(args[0]).serial, found))
        return found

    def answer(self, serial: int, copy: int = 0, how: str = MEASURED) -> None:
        """Have one of the hosts that were given an order reply."""
        futures = [future for number, future in self.given if number == serial]
        part = RunPart(replace(make_run(id=5), state_asks=0))
        reply = HostReply(serial, how, f"host/{copy}", part=part, records=deflate("[]"))
        futures[copy].set_result(reply.pack())

    def copies(self, serial: int) -> int:
        """Return how many hosts were given an order."""
        return sum(number == serial for number, _ in self.given)


class Timed(Hosts):
    """Hosts for whom time passes while the driver waits."""

    def __init__(self, engine: Executor, clock: Played) -> None:
        self.clock = clock
        super().__init__(engine, at_once=8, patience=1.0)

    def _wait(self, seconds: float) -> list[Future[bytes]]:
        found = super()._wait(1e-3)
        self.clock.sleep(0.0 if found else min(seconds, 0.25))
        return found


class Late:
    """Hosts whose orders take as long as a test says."""

    def __init__(self) -> None:
        self.engine, clock = Held(), Played()
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


def test_larger_slices_may_take_longer_and_smaller_ones_as_long(late: Late) -> None:
    late.take(0, "a", 1.0, trials=4)
    late.submit(1, "a", trials=16)
    late.submit(2, "a", trials=1)
    late.pass_seconds(3.0)
    assert (late.engine.copies(1), late.engine.copies(2)) == (1, 1)
    late.pass_seconds(0.5)
    assert (late.engine.copies(1), late.engine.copies(2)) == (1, 2)
    late.pass_seconds(5.0)
    assert late.engine.copies(1) == 1
    late.pass_seconds(1.0)
    assert late.engine.copies(1) == 2


def test_a_first_slice_is_compared_with_what_nine_of_ten_take(late: Late) -> None:
    for serial in range(18):
        late.take(serial, f"task {serial}", 10.0 if serial % 9 == 8 else 1.0)
    late.submit(18, "another")
    late.pass_seconds(20.5)
    assert late.engine.copies(18) == 1
    late.pass_seconds(1.0)
    assert late.engine.copies(18) == 2


def test_the_fastest_first_slices_do_not_make_the_others_late(late: Late) -> None:
    """Half of all programs take much longer, which is known when they have come back."""
    for serial in range(8):
        late.submit(serial, f"task {serial}")
    late.pass_seconds(1.0)
    for serial in range(4):
        late.engine.answer(serial)
    assert len(late.hosts.wait()) == 4
    late.pass_seconds(60.0)
    assert [late.engine.copies(serial) for serial in range(4, 8)] == [1, 1, 1, 1]


def test_what_ends_at_once_says_nothing_of_what_takes_long(late: Late) -> None:
    late.submit(0, "a")
    late.engine.answer(0, how=UNTUNABLE)
    late.pass_seconds(0.1)
    late.engine.answer(0, copy=1, how=UNTUNABLE)
    assert len(late.hosts.wait()) == 1, "a second host, or the same one again, says so as well"
    late.submit(1, "b")
    late.pass_seconds(80.0)
    assert late.engine.copies(1) == 1


def test_each_copy_waits_twice_as_long_and_nobody_is_given_up(late: Late) -> None:
    late.take(0, "a", 1.0)
    late.submit(1, "a")
    copies = []
    with pytest.warns(HostWarning, match="no host has answered for 12 s"):
        for _ in range(22):
            late.pass_seconds(1.0)
            copies.append(late.engine.copies(1))
    assert copies == [1] * 3 + [2] * 6 + [3] * 12 + [4]
    with pytest.warns(HostWarning, match="no host has answered"):
        late.pass_seconds(25.0)
    assert late.engine.copies(1) == 5
    assert late.hosts.free == 4, "the first host may be gone, and counts for nobody"
    late.engine.answer(1, copy=0)
    [(order, reply)] = late.hosts.wait()
    assert (order.serial, reply.name, late.hosts.free) == (1, "host/0", 8)


def test_of_few_orders_one_that_is_lost_is_late_as_well(late: Late) -> None:
    """It is not compared with itself for ever."""
    for serial in range(5):
        late.submit(serial, f"task {serial}")
    late.hosts.clock.sleep(1.0)
    for serial in range(4):
        late.engine.answer(serial)
    assert len(late.hosts.wait()) == 4
    late.pass_seconds(82.0)
    assert late.engine.copies(4) == 2


def test_what_is_there_already_is_not_late(late: Late) -> None:
    """The driver stood still, and takes eight replies at a time."""
    late.take(0, "a", 1.0)
    for serial in range(1, 9):
        late.submit(serial, "a")
    for serial in range(1, 9):
        late.engine.answer(serial)
    late.hosts.clock.sleep(100.0)
    late.hosts._repeat_late()
    assert [late.engine.copies(serial) for serial in range(1, 9)] == [1] * 8


def test_code_that_fails_everywhere_ends_the_call_though_a_copy_is_lost(late: Late) -> None:
    late.take(0, "a", 1.0)
    late.submit(1, "a")
    with pytest.raises(HostError, match="failed"):
        for copy in range(1, 9):
            late.hosts.wait(late.hosts.clock.now() + 4.0 * 2**copy)
            late.engine.answer(1, copy, how=FAILED)
            late.hosts.wait(late.hosts.clock.now() + 1.0)
    assert late.engine.copies(1) <= 6


def test_a_copy_waits_for_a_host_and_goes_before_other_slices(late: Late) -> None:
    late.take(0, "a", 1.0)
    for serial in range(1, 9):
        late.submit(serial, "a" if serial == 1 else "b", trials=8 if serial == 1 else 800)
    late.pass_seconds(4.0)
    assert (late.engine.copies(1), late.hosts.free) == (1, 0)
    late.engine.answer(2)
    assert len(late.hosts.wait()) == 1
    assert (late.engine.copies(1), late.hosts.free) == (2, 0)


def test_nobody_waits_for_a_copy_of_what_is_done(late: Late) -> None:
    late.take(0, "a", 1.0)
    for serial in range(1, 9):
        late.submit(serial, "a")
    late.pass_seconds(4.0)
    for serial in range(1, 9):
        late.engine.answer(serial)
    while late.hosts.flying:
        late.hosts.wait()
    assert late.hosts.free == 8


def test_a_copy_goes_out_at_last_though_no_host_is_free(late: Late) -> None:
    """Replies were lost: the hosts are idle."""
    late.take(0, "a", 1.0)
    for serial in range(1, 9):
        late.submit(serial, "a")
    late.pass_seconds(11.0)
    assert late.engine.copies(1) == 1
    late.pass_seconds(2.0)
    assert late.engine.copies(1) == 2


def test_while_none_has_come_back_hosts_may_be_starting(late: Late) -> None:
    late.submit(0, "a")
    late.pass_seconds(80.0)
    assert late.engine.copies(0) == 1
    late.pass_seconds(2.0)
    assert late.engine.copies(0) == 2


def test_a_host_that_fails_does_not_end_what_another_one_has(late: Late) -> None:
    late.take(0, "a", 1.0)
    late.submit(1, "a")
    late.pass_seconds(4.0)
    for copy in (1, 2):
        late.engine.answer(1, copy, how=FAILED)
        late.pass_seconds(7.0)
    assert late.engine.copies(1) >= 3
    late.engine.answer(1)
    assert len(late.hosts.wait()) == 1
