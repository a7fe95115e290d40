"""Replies that a broken or hostile host may send: what one said, changed in one way each."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Any

from schedlang.database import FinalsEntry, Record
from schedlang.database.parts import records_to_json
from schedlang.tuning.hosts import carry_out
from schedlang.tuning.hosts.frames import deflate, inflate, pack, unpack
from schedlang.tuning.hosts.messages import UNTUNABLE, HostReply, Order

GOOD, EVIL = "good/1", "evil/1"

# Places in the rows of a record, and of finals.
_SAMPLES, _PROPOSAL = 6, 15
_FINALS_SAMPLES = 3

Replies = Mapping[int, HostReply]
Change = Callable[[HostReply, Replies], Any]


@dataclass(frozen=True)
class Poison:
    """One way in which a reply is wrong.

    Attributes
    ----------
    name: of it.
    said: what the driver says of it, as a regular expression; empty for what an engine raises, as
        where a host dies, of which nothing is said.
    change: makes it of a right reply, and of all of them: another reply, or what the engine has
        instead of one, exceptions included.
    named: whether the driver can read who sent it.
    """

    name: str
    said: str
    change: Change
    named: bool = True


class Recorder(Executor):
    """Carries orders out, and keeps the replies by serial number, as if ``GOOD`` had compared."""

    _max_workers = 1

    def __init__(self) -> None:
        self.replies: dict[int, HostReply] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Carry out an order now."""
        reply = replace(HostReply.unpack(carry_out(args[0])), name=GOOD, verified=True)
        self.replies[reply.serial] = reply
        return _done(reply.pack())


class Played(Executor):
    """Gives the replies of a ``Recorder`` again, to one of the orders a poisoned one first.

    Attributes
    ----------
    orders: those that it got.
    """

    _max_workers = 1

    def __init__(self, replies: Replies, change: Change, serial: int, times: int = 1) -> None:
        self._replies, self._change, self._serial, self._times = replies, change, serial, times
        self.orders: list[Order] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give the reply now."""
        order = Order.unpack(args[0])
        before = sum(one.serial == order.serial for one in self.orders)
        self.orders.append(order)
        reply = self._replies[order.serial]
        if order.serial != self._serial or before >= self._times:
            return _done(reply.pack())
        sent = self._change(replace(reply, name=EVIL), self._replies)
        return _done(sent.pack() if isinstance(sent, HostReply) else sent)


def _done(found: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(found, BaseException):
        future.set_exception(found)
    else:
        future.set_result(found)
    return future


def _header(**fields: Any) -> Change:
    def change(reply: HostReply, _: Replies) -> bytes:
        header, frames = unpack(reply.pack())
        return pack({**header, **fields}, frames)

    return change


def _records(change: Callable[[list[Record]], list[Record]]) -> Change:
    """Change the records, and number them."""

    def changed(reply: HostReply, _: Replies) -> HostReply:
        found = [replace(one, id=-1 - n) for n, one in enumerate(change(_records_of(reply)))]
        return replace(reply, records=deflate(records_to_json(found)))

    return changed


def _records_of(reply: HostReply) -> list[Record]:
    assert reply.part is not None
    return list(reply.part.records)


def _each(**fields: Any) -> Change:
    return _records(lambda found: [replace(one, **fields) if one.ok else one for one in found])


def _row(place: int, value: Any) -> Change:
    """Change the row of a record to what ``Record`` would refuse."""

    def change(reply: HostReply, _: Replies) -> HostReply:
        number = next(n for n, one in enumerate(_records_of(reply)) if one.ok)
        rows = json.loads(inflate(reply.records))
        rows[number][place] = value
        return replace(reply, records=deflate(json.dumps(rows)))

    return change


def _part(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Change what is new of the run, as JSON."""

    def changed(reply: HostReply, _: Replies) -> bytes:
        header, (part, *others) = unpack(reply.pack())
        stored = json.loads(inflate(part))
        change(stored)
        return pack(header, [deflate(json.dumps(stored)), *others])

    return changed


def _outcome(change: Callable[[str], str]) -> Change:
    def changed(reply: HostReply, _: Replies) -> HostReply:
        assert reply.part is not None
        run = replace(reply.part.run, outcome=change(reply.part.run.outcome))
        return replace(reply, part=replace(reply.part, run=run))

    return changed


def _ending(**fields: Any) -> Change:
    return _outcome(lambda text: json.dumps({**json.loads(text), **fields}))


def _without_steps(text: str) -> str:
    """Return an outcome whose winner has a trace without instructions."""
    ending = json.loads(text)
    trace = {**json.loads(ending["trace"]), "instructions": []}
    return json.dumps({**ending, "trace": json.dumps(trace)})


def _finals(change: Callable[[list[FinalsEntry]], list[FinalsEntry]]) -> Change:
    def changed(reply: HostReply, _: Replies) -> HostReply:
        assert reply.part is not None
        return replace(reply, part=replace(reply.part, finals=change([*reply.part.finals])))

    return changed


def _timed(factor: float) -> Change:
    return _finals(
        lambda found: [
            replace(one, samples=tuple(factor * sample for sample in one.samples)) for one in found
        ]
    )


def _again(reply: HostReply, replies: Replies) -> HostReply:
    """Send the records of the first slice as if they were new."""
    return replace(replies[1], serial=reply.serial, name=EVIL)


def _unverified_winner(reply: HostReply, replies: Replies) -> HostReply:
    """Let a new record win that was not verified."""
    fast = next(one for one in _records_of(replies[1]) if one.ok)
    known = _records_of(reply)
    number = -1 - len(known)
    new = replace(fast, id=number, verified=False, proposal=4096)
    changed: HostReply = _ending(winner=number)(reply, replies)
    return replace(changed, records=deflate(records_to_json([*known, new])))


def _without_part(reply: HostReply, _: Replies) -> HostReply:
    return replace(reply, part=None)


SEARCH = [
    # What the engine has instead of a reply.
    Poison("SystemExit", "", lambda *_: SystemExit(3), named=False),
    Poison("KeyboardInterrupt", "", lambda *_: KeyboardInterrupt(), named=False),
    Poison("GeneratorExit", "", lambda *_: GeneratorExit(), named=False),
    Poison("None", "expected bytes, got NoneType", lambda *_: None, named=False),
    Poison("text", "expected bytes, got str", lambda *_: "junk", named=False),
    Poison("no bytes", "no message of this version", lambda *_: b"", named=False),
    Poison("a pickle", "no message of this version", lambda *_: b"\x80\x04junk", named=False),
    Poison("cut off", "cut off", lambda reply, _: reply.pack()[:-7], named=False),
    # Its header.
    Poison("serial of 2^80", "beyond 64 bits", _header(serial=1 << 80), named=False),
    Poison("rate of NaN", "not finite", _header(rate=float("nan")), named=False),
    Poison("half a character", "surrogates not allowed", _header(token="\ud800"), named=False),
    Poison("a truth for a number", "serial: a whole number, not a truth", _header(serial=True)),
    Poison("an object for a list", "told: a list of whole numbers, not", _header(told={})),
    Poison("an unknown end", "it ended as 'great'", _header(how="great")),
    Poison("negative time", "not negative", _header(seconds=-1.0)),
    Poison("more time than went by", "went by", _header(seconds=1e9)),
    Poison("unscheduled in 0.04 ns", "no latency", _header(unscheduled=4e-11)),
    Poison("another order", "reply to order 77", _header(serial=77)),
    Poison("told of halves", r"told\[0\]: a whole number, not a number", _header(told=[0.5])),
    Poison("told of others", "were not sent", _header(told=[-500])),
    Poison("told too often", "told of more", _header(told=[-1] * 500)),
    Poison("nothing compared", "not compared results", _header(verified=False)),
    # Its records.
    Poison("a bomb", "too long", lambda reply, _: replace(reply, records=_bomb())),
    Poison("no list", "no records", lambda reply, _: replace(reply, records=deflate("{}"))),
    Poison("deep", "deeply", lambda reply, _: replace(reply, records=deflate("[" * 200_000))),
    Poison("records twice", "a record twice", _records(lambda found: [*found, *found])),
    Poison("stored records", "a record is stored", _again),
    Poison("proposal of 2^80", "beyond 64 bits", _row(_PROPOSAL, 1 << 80)),
    Poison("another program", "of another program", _each(workload_key="another")),
    Poison("another machine", "of another program, machine", _each(target_key="another")),
    Poison("another toolchain", "of another program, machine", _each(toolchain_key="another")),
    Poison("another year", "of another day", _each(created=1e300)),
    Poison("trace of words", "trace of a record is none", _each(trace_json="junk")),
    Poison("trace cut off", "trace of a record is none", _each(trace_json='{"instructions":[')),
    Poison("0.04 ns", "s is no latency", _row(_SAMPLES, "[4e-11]")),
    Poison("0.2 ns", "its arithmetic takes", _each(samples=(2e-10,))),
    # What is new of its run.
    Poison("no part", "no part of the run", _without_part),
    Poison("ask of 2^40", "an ask of", _part(lambda part: part.update(asks=[[1 << 40, 1.0]]))),
    Poison("ask after years", "went by", _part(lambda part: part.update(asks=[[4, 1e9]]))),
    Poison("asks of words", "no part of a run", _part(lambda part: part.update(asks="4"))),
    Poison("state of a list", "search is none", lambda one, _: replace(one, state=deflate("[]"))),
    Poison("state cut off", "cut off", lambda one, _: replace(one, state=one.state[:-3])),
    Poison(
        "state of others",
        "were not sent",
        lambda one, _: replace(one, state=deflate('{"records": [99999]}')),
    ),
    Poison("outcome of a search", "no outcome", _outcome(lambda _: "junk")),
    Poison(
        "details of others",
        "details of a record",
        _part(lambda part: part["trials"].append([7, 0, []])),
    ),
    Poison(
        "worker 1000",
        "at most 1000 workers",
        _part(lambda part: part["trials"].append([-1, 1000, []])),
    ),
]
"""Of a slice that is not the first."""

FINALS = [
    Poison("outcome of words", "cannot be read", _outcome(lambda _: "junk")),
    Poison("an unknown winner", "were not sent", _ending(winner=99_999)),
    Poison("a winner of words", "trace of its winner is none", _ending(trace="junk")),
    Poison("a winner of another trace", "is another program", _outcome(_without_steps)),
    Poison("a winner that is not verified", "was not verified", _unverified_winner),
    Poison("an ending in 0.2 ns", "its arithmetic takes", _ending(finals=[[0, [2e-10]]])),
    Poison("an ending in 0.04 ns", "no latency", _ending(finals=[[0, [4e-11]]])),
    Poison("ten times as fast", "less than half of what other hosts", _timed(0.1)),
    Poison("in 0.2 ns", "its arithmetic takes", _timed(1e-5)),
    Poison(
        "in 0.04 ns",
        "no latency",
        _part(lambda part: part["finals"][0].__setitem__(_FINALS_SAMPLES, "[4e-11]")),
    ),
    Poison("twice", "each program once", _finals(lambda found: [*found, *found])),
    Poison("no first", "places 0, 1", _finals(lambda found: [replace(found[0], place=3)])),
    Poison(
        "of another day",
        "another day",
        _finals(lambda found: [replace(one, held=1.0) for one in found]),
    ),
]
"""Of finals."""


def untunable(reply: HostReply, _: Replies) -> HostReply:
    """Say that the program cannot be tuned."""
    return HostReply(reply.serial, UNTUNABLE, EVIL, message="it has no loops")


def _bomb() -> bytes:
    return zlib.compress(b" " * ((1 << 26) + 1), 1)
