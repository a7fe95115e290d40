"""Batches of candidates, and replies to them that may be anything: nothing wrong is believed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import schedlang as sl
from schedlang.database import Database
from schedlang.errors import HostError, HostWarning
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.clock import Phase
from schedlang.measurement.disturbance import Disturbance
from schedlang.tuning.hosts import Hosts, carry_out
from schedlang.tuning.hosts.batches import (
    COMPARE,
    MEASURE,
    Batch,
    measurements_frame,
    measurements_of,
    program_frame,
)
from schedlang.tuning.hosts.frames import deflate, inflate
from schedlang.tuning.hosts.host import order_of
from schedlang.tuning.hosts.messages import MEASURED, HostReply, Order
from tests.tuning.hosts.replaying import WORKLOAD, threads, tune
from tests.tuning.hosts.test_messages import an_order

GOOD, EVIL = "good/1", "evil/1"


def a_batch(**fields: Any) -> Batch:
    candidate = Candidate(4, WORKLOAD.mod)
    known = {
        "ids": [4],
        "keys": [candidate.program_key],
        "programs": [program_frame(candidate)],
        "best": 1e-3,
        "apart": [],
    }
    return Batch(3, MEASURE, b"call", b"task", WORKLOAD.key, "cpu", **known | fields)


MEASURED_ALL = Measurement(
    4,
    Status.OK,
    (1e-5, 2e-5),
    verified=True,
    build_seconds=0.5,
    run_seconds=0.25,
    packed_ahead=True,
    disturbance=Disturbance(2, 1, 1e-5, 3e-5),
    worker=2,
    phases=(Phase("build", 1.0, 2.0), Phase("run", 2.0, 3.0, 1)),
)
FAILED_ONE = Measurement(5, Status.CRASHED, message="it crashed", stderr="signal 11")


def a_reply(*found: Measurement) -> HostReply:
    return HostReply(3, MEASURED, "host/1", records=measurements_frame(found))


def test_a_batch_arrives_as_it_was() -> None:
    batch = a_batch()
    found = order_of(batch.pack())
    assert found == batch and isinstance(found, Batch)
    [candidate] = found.candidates
    assert candidate.id == 4 and candidate.program_key == Candidate(0, WORKLOAD.mod).program_key
    assert isinstance(order_of(an_order().pack()), Order)


def test_measurements_arrive_as_they_were() -> None:
    reply = HostReply.unpack(a_reply(MEASURED_ALL, FAILED_ONE).pack())
    found = measurements_of(reply)
    assert found == [MEASURED_ALL, FAILED_ONE]
    assert found[0].worker == 2 and found[0].phases == MEASURED_ALL.phases


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_what_is_no_measurement_is_refused(rows: Any) -> None:
    reply = replace(a_reply(), records=deflate(json.dumps(rows)))
    if rows == []:
        assert measurements_of(reply) == []
        return
    with pytest.raises(HostError):
        reply.check(a_batch())


@pytest.mark.parametrize(
    "found",
    [
        [],
        [FAILED_ONE],
        [MEASURED_ALL, MEASURED_ALL],
        [replace(MEASURED_ALL, samples=(4e-11,))],
        [replace(MEASURED_ALL, worker=1000)],
        [replace(MEASURED_ALL, phases=(Phase("run", 1.0, 2.0, 1000),))],
        [replace(MEASURED_ALL, build_seconds=-1.0)],
    ],
)
def test_what_was_not_asked_for_is_refused(found: list[Measurement]) -> None:
    a_reply(MEASURED_ALL).check(a_batch())
    with pytest.raises(HostError, match="no reply to the order"):
        a_reply(*found).check(a_batch())


def test_fewer_come_where_there_is_a_deadline() -> None:
    a_reply().check(a_batch(seconds=1.0))


def test_of_finals_all_come_or_none() -> None:
    batch = replace(a_batch(seconds=1.0), what=COMPARE, ids=[4, 5])
    a_reply().check(batch)
    a_reply(MEASURED_ALL, FAILED_ONE).check(batch)
    with pytest.raises(HostError, match="it measured 1 of 2"):
        a_reply(MEASURED_ALL).check(batch)


def test_what_is_ok_has_samples() -> None:
    engine = Changed(MEASURE, each(samples=()))
    with pytest.warns(HostWarning, match="has no latency"):
        assert tune(Hosts(engine), trials=4).best.record.ok


Change = Callable[[HostReply], Any]


class Changed(Executor):
    """Carries orders out as ``GOOD``; ``EVIL`` changes the first reply to one kind of order."""

    _max_workers = 1

    def __init__(self, what: str, change: Change, times: int = 1) -> None:
        self._what, self._change, self._times = what, change, times
        self.orders: list[Any] = []
        self.wrong = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Carry out an order now."""
        order = order_of(args[0])
        self.orders.append(order)
        reply = replace(HostReply.unpack(carry_out(args[0])), name=GOOD)
        sent: Any = reply.pack()
        if order.what == self._what and self.wrong < self._times:
            self.wrong += 1
            sent = self._change(replace(reply, name=EVIL))
            sent = sent.pack() if isinstance(sent, HostReply) else sent
        future: Future[Any] = Future()
        future.set_result(sent)
        return future


def each(**fields: Any) -> Change:
    def change(reply: HostReply) -> HostReply:
        found = [replace(one, **fields) if one.ok else one for one in measurements_of(reply)]
        return replace(reply, records=measurements_frame(found))

    return change


def row(place: int, value: Any) -> Change:
    def change(reply: HostReply) -> HostReply:
        rows = json.loads(inflate(reply.records))
        for one in rows:
            one[place] = value
        return replace(reply, records=deflate(json.dumps(rows)))

    return change


WRONG: Mapping[str, tuple[str, str, Change]] = {
    "no bytes": (MEASURE, "no message of this version", lambda _: b""),
    "another order": (MEASURE, "reply to order 77", lambda one: replace(one, serial=77)),
    "more time than went by": (MEASURE, "went by", lambda one: replace(one, seconds=1e9)),
    "a run": (MEASURE, "a part of a run", lambda one: replace(one, told=[1])),
    "nothing": (MEASURE, "it measured 0 of", lambda one: replace(one, records=b"")),
    "another candidate": (MEASURE, "what was not sent", row(0, 4096)),
    "an id of words": (MEASURE, r"[0].id: a whole number, not a string", row(0, "4")),
    "an unknown status": (MEASURE, "is not a valid Status", row(1, "great")),
    "samples of words": (MEASURE, "[0].samples[0]: a number, not a string", row(2, ["4"])),
    "0.04 ns": (MEASURE, "s is no latency", each(samples=(4e-11,))),
    "a worker of another host": (MEASURE, "at most 1000 workers", row(10, 1000)),
    "a phase of words": (MEASURE, "no reply", row(11, [["run", "1", "2"]])),
    "no candidate compared": (COMPARE, "it measured 0 of", lambda one: replace(one, records=b"")),
    "0.04 ns in finals": (COMPARE, "s is no latency", each(samples=(4e-11,))),
    "ten times as fast": (COMPARE, "less than half of what other hosts", each(samples=(1e-7,) * 5)),
}


@pytest.mark.parametrize("name", WRONG)
def test_of_a_wrong_reply_nothing_is_stored(name: str) -> None:
    """It is named, another host takes the order, and the call ends as without it."""
    what, said, change = WRONG[name]
    with threads() as pool:
        expected = tune(pool, trials=12)
    engine = Changed(what, change)
    hosts = Hosts(engine)
    with Database() as database, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = tune(hosts, trials=12, database=database)
        assert database.count() == 12 + (found.unscheduled is not None)
    assert engine.wrong == 1
    assert [one.samples for one in found.records] == [one.samples for one in expected.records]
    assert found.best.trace == expected.best.trace
    [message] = [str(one.message) for one in caught if one.category is HostWarning]
    assert said in message
    assert {one.provenance["host"] for one in found.records} == {GOOD}
    if name != "no bytes":
        assert [*hosts.judge.wrong] == [EVIL]
        assert any(list(one.apart) == [EVIL] for one in engine.orders), "another one should take it"


def test_the_targets_own_measurer_is_never_as_fast_as_that() -> None:
    engine = Changed(MEASURE, each(samples=(2e-10,)))
    with pytest.warns(HostWarning, match="its arithmetic takes"):
        found = sl.tune(WORKLOAD, trials=4, search="random", hosts=engine, progress=False)
    assert found.best.record.verified


def test_a_host_that_compares_nothing_is_not_believed_where_others_compare() -> None:
    engine = Changed(MEASURE, lambda one: replace(one, verified=False))
    with pytest.warns(HostWarning, match="it has not compared results"):
        sl.tune(WORKLOAD, trials=4, search="random", hosts=engine, progress=False)


def test_two_hosts_that_time_a_winner_alike_are_believed() -> None:
    """This machine may have become faster."""
    engine = Changed(COMPARE, each(samples=(1e-7,) * 5), times=2)
    with pytest.warns(HostWarning, match="another one times it as well"):
        found = tune(Hosts(engine), trials=12)
    assert found.best.finals is not None and found.best.finals.winner.latency == 1e-7


def test_what_earlier_calls_measured_counts_too(tmp_path: Path) -> None:
    call = {"trials": 12, "database": tmp_path / "tune.db"}
    tune(Hosts(Changed("nothing", each())), finals=0, **call)
    engine = Changed(COMPARE, each(samples=(1e-7,) * 5))
    with pytest.warns(HostWarning, match="another one times it as well"):
        assert tune(Hosts(engine), **call).earlier == 12
    assert {one.what for one in engine.orders} <= {"describe", COMPARE}


def test_a_program_is_untunable_where_two_say_so() -> None:
    def untunable(reply: HostReply) -> HostReply:
        return HostReply(reply.serial, "untunable", EVIL, message="it has no loops")

    assert tune(Hosts(Changed(MEASURE, untunable)), trials=4).best.record.ok
    with pytest.raises(sl.WorkloadError, match="GMM: it has no loops"):
        tune(Hosts(Changed(MEASURE, untunable, times=2)), trials=4)
