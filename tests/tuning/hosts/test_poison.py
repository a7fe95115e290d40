"""A reply that is wrong, in each of many ways: it is named, nothing of it is stored, and the call
ends with what it ends with otherwise.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.errors import HostWarning
from schedlang.tuning.hosts import Hosts
from schedlang.tuning.hosts.messages import HostReply
from tests.tuning.hosts import poison
from tests.tuning.hosts.poison import EVIL, GOOD, Played, Poison, Recorder
from tests.tuning.hosts.replaying import one_task, tune_slices

TRIALS = 12
FINALS = 3


@pytest.fixture(scope="module")
def replies() -> Mapping[int, HostReply]:
    """What a host said to the orders of a call, by their numbers: two slices, and finals."""
    recorder = Recorder()
    tune_slices(Hosts(recorder), trials=TRIALS)
    assert len(recorder.replies) == FINALS
    return recorder.replies


def played(engine: Any, database: Database, **options: Any) -> tuple[sl.TuneResult, Hosts]:
    """Tune as if hosts had measured with the target's own measurer."""
    hosts = Hosts(engine)
    call = {"trials": TRIALS, "measurer": None, "database": database}
    return tune_slices(hosts, **call | options), hosts


def contents(database: Database) -> list[Any]:
    """Return what a database holds, but for times of day."""
    records = database.query()
    [run] = database.runs()
    finals = database.finals(run.workload_key)
    return [
        [(one.id, one.proposal, one.trace_json, one.samples, one.provenance) for one in records],
        [(one.record_id, one.place, one.samples) for one in finals],
        [(one.size, one.seconds) for one in database.asks(run.id or 0)],
        (run.state, run.outcome == ""),
        [(one.record_id, one.worker) for one in database.details(run.id or 0).trials],
    ]


@pytest.fixture(scope="module")
def expected(replies: Mapping[int, HostReply]) -> tuple[list[Any], str]:
    """What is stored without a wrong reply, and the best trace."""
    with Database() as database:
        found, hosts = played(Played(replies, lambda reply, _: reply, 0), database)
        assert not hosts.judge.wrong
        return contents(database), found.best.trace.to_json()


def check(
    wrong: Poison, serial: int, replies: Mapping[int, HostReply], expected: tuple[list[Any], str]
) -> None:
    engine = Played(replies, wrong.change, serial)
    with Database() as database, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, hosts = played(engine, database)
        assert contents(database) == expected[0]
    assert found.best.trace.to_json() == expected[1]
    assert found.best.record.verified
    assert len(engine.orders) == len(replies) + 1, "it was given once more"
    said = [str(one.message) for one in caught if one.category is HostWarning]
    if not wrong.said:
        assert not said and not hosts.judge.wrong
        return
    [message] = said
    sender = EVIL if wrong.named else ""
    assert [*hosts.judge.wrong] == [sender]
    assert message.startswith(f"a reply of {f'host {EVIL}' if wrong.named else 'a host'} is not")
    assert re.search(wrong.said, message), message
    [again] = engine.orders[serial:][:1]
    assert list(again.apart) == ([EVIL] if wrong.named else []), "another host should take it"


@pytest.mark.parametrize("wrong", poison.SEARCH, ids=lambda one: one.name)
def test_a_slice(wrong: Poison, replies: Any, expected: Any) -> None:
    check(wrong, 2, replies, expected)


@pytest.mark.parametrize("wrong", poison.FINALS, ids=lambda one: one.name)
def test_finals(wrong: Poison, replies: Any, expected: Any) -> None:
    check(wrong, FINALS, replies, expected)


def test_a_program_is_untunable_where_two_say_so(replies: Any, expected: Any) -> None:
    with Database() as database:
        played(Played(replies, poison.untunable, 1), database)
        assert contents(database) == expected[0]
    with Database() as database, pytest.raises(sl.WorkloadError, match="it has no loops"):
        played(Played(replies, poison.untunable, 1, times=2), database)


def test_a_host_that_is_alone_and_always_wrong_ends_the_call(replies: Any) -> None:
    [wrong] = (one for one in poison.SEARCH if one.name == "records twice")
    engine = Played(replies, wrong.change, 2, times=1000)
    with Database() as database:
        with (
            pytest.warns(HostWarning),
            pytest.raises(sl.HostError, match=f"host {EVIL}: .*a record twice") as raised,
        ):
            played(engine, database)
        assert len(raised.value.result.tasks[0].result.records) == database.count() - 1  # type: ignore[attr-defined]
    assert len(engine.orders) < 20


def test_a_winner_that_others_time_alike_wins(replies: Any) -> None:
    """Two hosts that say the same are believed: this machine may have become faster."""
    [wrong] = (one for one in poison.FINALS if one.name == "ten times as fast")
    engine = Played(replies, wrong.change, FINALS, times=2)
    with Database() as database, pytest.warns(HostWarning, match="another one times it as well"):
        found, _ = played(engine, database)
        match = sl.best(one_task().tasks[0].workload, database=database, similar=False)
    assert len(engine.orders) == len(replies) + 1
    assert match is not None
    assert match.latency < 0.2 * min(one.latency for one in found.records if one.ok)


def test_records_that_are_not_verified_do_not_win(replies: Any) -> None:
    def slowest_first(found: list[Record]) -> list[Record]:
        slow = max((one for one in found if one.ok), key=lambda one: one.latency)
        fast = replace(slow, verified=False, samples=(2e-6,))
        return [fast if one is slow else one for one in found]

    say_so = poison._records(slowest_first)
    engine = Played(replies, say_so, 2)
    with Database() as database:
        found, _ = played(engine, database, finals=0)
    assert any(not one.verified for one in found.records)
    assert found.best.record.verified and found.best.latency > 2e-6


def test_a_measurer_of_the_users_that_compares_nothing_lets_records_win(replies: Any) -> None:
    """Unless other hosts compare: then those that do not are not believed."""
    without = {n: replace(one, verified=False) for n, one in replies.items()}
    engine = Played(without, lambda reply, _: reply, 0)
    assert tune_slices(Hosts(engine), trials=TRIALS).best.record.ok
    engine = Played(replies, lambda reply, _: replace(reply, verified=False), 2)
    with pytest.warns(HostWarning, match="it has not compared results, and others have"):
        tune_slices(Hosts(engine), trials=TRIALS)


def test_a_trace_of_another_program_is_not_looked_up(replies: Any) -> None:
    """It is as well-formed as others, and was fast: only making the program shows what it is."""

    def swap(reply: HostReply, _: Any) -> Any:
        first = next(one for one in poison._records_of(replies[1]) if one.ok)
        return poison._each(samples=(2e-6,), trace_json=first.trace_json)(reply, _)

    with Database() as database:
        found, _ = played(Played(replies, swap, 2), database, finals=0)
        assert found.best.latency > 2e-6
        with pytest.warns(sl.UnreadableWarning, match=f"host {EVIL} measured another program"):
            match = sl.best(one_task().tasks[0].workload, database=database, similar=False)
    assert match is not None and match.latency > 2e-6
    assert match.record.provenance["host"] == GOOD


def test_what_hosts_say_is_shown_without_marks(replies: Any) -> None:
    def evil(reply: HostReply, _: Any) -> Any:
        wrong = replace(reply, name="[red]evil[/red]\x1b[2J" + "x" * 1000)
        return replace(wrong, serial=77)

    with Database() as database, pytest.warns(HostWarning) as caught:
        played(Played(replies, evil, 2), database)
    [message] = [str(one.message) for one in caught if one.category is HostWarning]
    assert "\x1b" not in message and "[red]" not in message and len(message) < 500
