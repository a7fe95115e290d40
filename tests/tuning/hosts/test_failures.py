"""Hosts that fail, refuse, are slow or lie: the call goes on, or ends and says why."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database
from schedlang.database.parts import records_to_json
from schedlang.errors import HostError
from schedlang.testing.executors import check, tuned
from schedlang.tuning.hosts import Hosts, carry_out
from schedlang.tuning.hosts.batches import COMPARE, MEASURE, Batch
from schedlang.tuning.hosts.frames import deflate, inflate
from schedlang.tuning.hosts.host import order_of
from schedlang.tuning.hosts.messages import FAILED, FINALS, REFUSED, SEARCH, HostReply, Order
from schedlang.tvm.stored_program import read_stored_program
from tests.crash.tuner import Replayed
from tests.tuning.hosts.replaying import WORKLOAD, threads, tune, tune_slices


class Host(Executor):
    """One thread that carries orders out; ``change`` may change its replies."""

    _max_workers = 1

    def __init__(self, change: Callable[[Any, HostReply], HostReply] | None = None) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._change = change
        self.orders: list[Order | Batch] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Carry out an order."""
        self.orders.append(order_of(args[0]))
        return self._pool.submit(self._carry_out, args[0])

    def _carry_out(self, packed: bytes) -> bytes:
        done = carry_out(packed)
        if self._change is None:
            return done
        return self._change(order_of(packed), HostReply.unpack(done)).pack()


class WithOneThatRefuses(Host):
    """A host that works, and one that is always idle, as it refuses at once."""

    _max_workers = 2

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        super().__init__()
        self._answer = answer
        self._busy: Future[Any] | None = None
        self.answered = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give an order to the one that is idle."""
        if self._busy is None or self._busy.done():
            self._busy = super().submit(fn, *args, **kwargs)
            return self._busy
        self.answered += 1
        found: Future[Any] = Future()
        answer = self._answer(order_of(args[0]))
        if isinstance(answer, Exception):
            found.set_exception(answer)
        else:
            found.set_result(answer)
        return found


def refuse(order: Order) -> bytes:
    return HostReply(order.serial, REFUSED, "other/1", message="it is another machine").pack()


def break_down(order: Order) -> Exception:
    return ConnectionError("its disk is full")


@pytest.mark.slow
@pytest.mark.parametrize("answer", [refuse, break_down])
def test_an_idle_host_that_takes_nothing_does_not_end_the_call(answer: Any) -> None:
    """It is asked again and again, as it is always free."""
    engine = WithOneThatRefuses(answer)
    hosts = Hosts(engine)
    check(*tuned(hosts))
    assert engine.answered > hosts.at_once
    assert hosts.judge.refused == ({"other/1": "it is another machine"} if answer is refuse else {})


def test_hosts_that_all_refuse_are_named() -> None:
    def refuse_it(order: Order, reply: HostReply) -> HostReply:
        return HostReply(order.serial, REFUSED, "other/1", message="it is another machine")

    with pytest.raises(HostError, match="other/1: it is another machine"):
        tuned(Hosts(Host(refuse_it)))


def test_slow_slices_are_no_failures() -> None:
    """Finals and first slices take much longer than others."""

    def wait(order: Order, reply: HostReply) -> HostReply:
        time.sleep(1.0 if order.serial in (1, 4) or order.what == COMPARE else 0.0)
        return reply

    check(*tuned(Hosts(Host(wait), patience=0.01)))


def far_id(order: Order, reply: HostReply) -> HostReply:
    return replace(reply, told=[*reply.told, -500])


def unknown_id(order: Order, reply: HostReply) -> HostReply:
    return replace(reply, told=[*reply.told, 12345])


def other_program(order: Order, reply: HostReply) -> HostReply:
    return _changed(reply, workload_key="another")


def other_machine(order: Order, reply: HostReply) -> HostReply:
    return _changed(reply, target_key="another")


def other_toolchain(order: Order, reply: HostReply) -> HostReply:
    return _changed(reply, toolchain_key="another")


def _changed(reply: HostReply, **fields: Any) -> HostReply:
    assert reply.part is not None
    changed = [replace(one, **fields) for one in reply.part.records]
    return replace(reply, records=deflate(records_to_json(changed)))


def damaged_state(order: Order, reply: HostReply) -> HostReply:
    return replace(reply, state=reply.state[:-3])


def foreign_state(order: Order, reply: HostReply) -> HostReply:
    text = inflate(reply.state)
    assert '"records": [-1' in text or '"records":[-1' in text, text[:200]
    return replace(reply, state=deflate(text.replace("[-1", "[99999", 1)))


def outcome(order: Order, reply: HostReply) -> HostReply:
    assert reply.part is not None
    return replace(reply, part=replace(reply.part, run=replace(reply.part.run, outcome="junk")))


def endless(order: Order, reply: HostReply) -> HostReply:
    return replace(reply, seconds=float("inf"))


def other_order(order: Order, reply: HostReply) -> HostReply:
    return replace(reply, serial=reply.serial + 1)


@pytest.mark.parametrize(
    "damage",
    [
        far_id,
        unknown_id,
        other_program,
        other_machine,
        other_toolchain,
        damaged_state,
        foreign_state,
        outcome,
        endless,
        other_order,
    ],
)
def test_of_a_reply_that_is_wrong_nothing_is_stored(damage: Any) -> None:
    """The first reply is wrong in a way of its own; the order is given again."""
    wrong: list[int] = []

    def change(order: Order, reply: HostReply) -> HostReply:
        if wrong or order.what != "search":
            return reply
        wrong.append(order.serial)
        return damage(order, reply)

    with Database() as database:
        found = tune_slices(Hosts(Host(change)), database=database)
        check(found, database, 24)
    assert wrong


def test_names_of_hosts_are_shown_without_marks() -> None:
    def rename(order: Order, reply: HostReply) -> HostReply:
        return replace(reply, name="[red]evil[/red]\x1b[2J" + "x" * 1000)

    hosts = Hosts(Host(rename))
    check(*tuned(hosts))
    [name] = hosts.judge.names
    assert len(name) == 200 and not set(name) & {"[", "]", "\x1b"}


class Ends(sl.search.Random):
    """Proposes eight programs, and then nothing, without saying so."""

    name = "ends"

    def ask(self, n: int) -> list[sl.search.Proposal]:
        left = 8 - getattr(self, "asked", 0)
        found = super().ask(min(n, left)) if left > 0 else []
        self.asked = 8 - left + len(found)
        return found


class Forgetful(sl.search.Random):
    """Cannot save its state."""

    name = "forgetful"

    def save(self) -> str:
        raise sl.SchedlangError("this search cannot save its state")


def test_a_search_that_proposes_nothing_more_ends() -> None:
    with threads() as pool:
        found = tune(pool, search=Ends, trials=64)
    assert len(found.records) == 8


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_search_that_cannot_save_goes_on(count: int, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with threads(count) as pool:
        first = tune(pool, search=Forgetful, trials=12, database=path)
        found = tune(pool, search=Forgetful, trials=40, database=path)
    assert found.earlier == len(first.records)
    assert len(found.records) >= 40
    assert {one.id for one in first.records} <= {one.id for one in found.records}


def test_a_search_that_ended_is_not_asked_again(tmp_path: Path) -> None:
    engine = Host()
    for _ in range(2):
        found = tune_slices(Hosts(engine), search=Ends, trials=64, database=tmp_path / "tune.db")
        assert sum(one.proposal is not None for one in found.records) == 8
    assert [one.what for one in engine.orders].count(FINALS) == 1


class Repeats(sl.search.Random):
    """Proposes again what it has proposed."""

    name = "repeats"

    def ask(self, n: int) -> list[sl.search.Proposal]:
        if not hasattr(self, "first"):
            self.first, self.next = super().ask(4), 4
        found = [
            sl.search.Proposal(self.next + number, one.schedule)
            for number, one in enumerate(self.first[:n])
        ]
        self.next += len(found)
        return found

    def tell(self, outcomes: Any) -> None:
        """Learn nothing."""


def test_slices_that_bring_nothing_new_end() -> None:
    engine = Host()
    found = tune_slices(Hosts(engine), search=Repeats, trials=64)
    proposed = {one.program_key for one in found.records if one.proposal is not None}
    assert len(proposed) <= 4
    assert len(engine.orders) < 10


def test_an_error_of_one_host_is_no_error_of_the_call() -> None:
    failed: list[str] = []

    def fail_once(order: Order, reply: HostReply) -> HostReply:
        if failed:
            return reply
        failed.append(reply.name)
        return HostReply(
            order.serial, FAILED, "sick/1", message="ImportError: no module named 'mine'"
        )

    check(*tuned(Hosts(Host(fail_once))))
    assert failed


def test_hosts_serve_one_call_at_a_time() -> None:
    hosts = Hosts(Host())
    with hosts, pytest.raises(HostError, match="another call uses these hosts"):
        tune(hosts)
    assert len(tune(hosts).records) == 24


def test_a_call_knows_nothing_of_the_errors_of_the_last_one() -> None:
    broken = [True]

    def fail(order: Order, reply: HostReply) -> HostReply:
        if broken:
            raise ConnectionError("the host was lost")
        return reply

    hosts = Hosts(Host(fail), attempts=1)
    with pytest.raises(HostError, match="the host was lost"):
        tuned(hosts)
    broken.clear()
    check(*tuned(hosts))


def test_a_measurer_of_another_machine_is_refused_by_name() -> None:
    def elsewhere(target: sl.Target) -> Any:
        made = Replayed()
        made.machine_key = "another machine"  # type: ignore[attr-defined]
        return made

    with threads() as pool, pytest.raises(HostError, match="its measurer measures another machine"):
        tune(pool, measurer=elsewhere)


def test_there_is_time_for_finals() -> None:
    def wait(order: Order, reply: HostReply) -> HostReply:
        time.sleep(0.05)
        return reply

    engine = Host(wait)
    with Database() as database:
        found = tune(Hosts(engine), trials=100_000, seconds=8, database=database)
        assert database.finals(found.workload.key)
    orders = [one.what for one in engine.orders]
    assert orders.count(COMPARE) == 1
    used = re.fullmatch(r"(.+) of 8 s are over; the rest is kept for the finals", found.finished)
    assert used and 4 < float(used[1]) < 8


def test_remeasuring_measures(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with threads() as pool:
        first = tune(pool, database=path)
        again = tune(pool, database=path, remeasure=True)
    assert {one.id for one in first.records}.isdisjoint({one.id for one in again.records})
    assert [one.trace_json for one in again.records] == [one.trace_json for one in first.records]


@pytest.mark.parametrize("tune_it", [tune, tune_slices])
def test_seconds_are_shared_by_orders(tune_it: Any) -> None:
    """A host has the time that the call has left."""
    engine = Host()
    found = tune_it(Hosts(engine), trials=40, seconds=60, batch=4)
    assert len(found.records) >= 40
    used = [one.used for one in engine.orders]
    assert used == sorted(used)
    assert all(
        one.seconds and one.seconds < 60 for one in engine.orders if one.what in (SEARCH, MEASURE)
    )


def test_a_call_whose_time_is_over_ends_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"

    def wait(order: Order, reply: HostReply) -> HostReply:
        time.sleep(0.5)
        return reply

    began = time.monotonic()
    found = tune(Hosts(Host(wait)), trials=10_000, seconds=3, batch=4, database=path)
    assert time.monotonic() - began < 20
    assert found.finished.partition(";")[0].endswith("3 s are over") and found.records
    with threads() as pool:
        more = tune(pool, trials=len(found.records) + 8, database=path, batch=4)
    kept = {one.id for one in found.records}
    assert kept <= {one.id for one in more.records}
    assert len({one.program_key for one in more.records}) == len(more.records)


@pytest.mark.slow
def test_what_was_known_is_sent_though_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest records of other runs travel; the ones that are named always do."""
    monkeypatch.setattr("schedlang.tuning.hosts.hosted_run._MOST_KNOWN", 4)
    with Database() as database, threads(3) as pool:
        tune_slices(pool, trials=48, database=database)
        found = tune_slices(pool, trials=64, search="evolutionary", database=database)
    assert found.best.latency == min(one.latency for one in found.records if one.ok)


@pytest.mark.slow
def test_an_error_keeps_what_this_call_has_measured(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"

    def fail(order: Order, reply: HostReply) -> HostReply:
        if len(engine.orders) > 3:
            raise ConnectionError("the host was lost")
        return reply

    engine = Host(fail)
    with threads() as pool:
        first = tune(pool, trials=12, database=path)
    with pytest.raises(HostError, match="the host was lost") as raised:
        tune(Hosts(engine), trials=120, database=path)
    result = raised.value.result  # type: ignore[attr-defined]
    assert len(first.records) == 12 < len(result.records)


def test_the_unscheduled_program_is_in_the_result() -> None:
    expected = tune(None)
    with threads() as pool:
        found = tune(pool)
    assert (found.unscheduled is None) == (expected.unscheduled is None)
    assert found.reference_latency == expected.reference_latency


def test_a_program_of_the_users_travels() -> None:
    """What is sent is the program, not its name."""
    engine = Host()
    found = tune(Hosts(engine))
    assert found.workload.key == WORKLOAD.key
    for order in engine.orders:
        sent = json.loads(inflate(order.task))
        program = read_stored_program(sent["program"])
        assert sl.Workload(program, "other").key == WORKLOAD.key
