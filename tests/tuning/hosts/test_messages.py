"""What travels: orders, and replies that may be anything."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from schedlang.database import Ask, RunDetails
from schedlang.database.parts import RunPart, records_to_json
from schedlang.errors import HostError
from schedlang.measurement.clock import Phase
from schedlang.tuning.hosts.frames import deflate, pack, unpack
from schedlang.tuning.hosts.messages import MEASURED, SEARCH, Block, HostReply, Order, State
from tests.database.plausible import make_details, make_record, make_run


def an_order() -> Order:
    record = make_record(id=7)
    return Order(
        3,
        SEARCH,
        b"call",
        b"task",
        make_run(id=5),
        [Ask(4, 1.5)],
        after="token",
        latest=[8, 9],
        state=State(b"state", [8, 9], 1),
        blocks=[Block(5, [7], deflate(records_to_json([record])))],
        apart=[],
        trials=16,
        seconds=None,
        programs=[b"other"],
    )


def a_reply() -> HostReply:
    record = make_record(id=-1)
    details = make_details(-1)
    part = RunPart(make_run(id=5), asks=[Ask(4, 1.5)], details=details, finals=[])
    return HostReply(
        3,
        MEASURED,
        "host/1",
        told=[-1, 7],
        part=part,
        records=deflate(records_to_json([record])),
        state=deflate("{}"),
    )


def test_an_order_arrives_as_it_was() -> None:
    order = an_order()
    assert Order.unpack(order.pack()) == order
    [record] = Order.unpack(order.pack()).blocks[0].records()
    assert record == make_record(id=7)


def test_a_reply_arrives_as_it_was() -> None:
    reply = a_reply()
    found = HostReply.unpack(reply.pack())
    assert found.part is not None and reply.part is not None
    assert found.part.records == [make_record(id=-1)]
    assert replace(found, part=None) == replace(reply, part=None)
    assert replace(found.part, records=()) == reply.part


@given(st.binary(max_size=200))
def test_no_bytes_are_believed(noise: bytes) -> None:
    with pytest.raises(HostError):
        HostReply.unpack(noise)


@given(st.data())
def test_damaged_replies_are_refused_or_still_replies(data: st.DataObject) -> None:
    message = bytearray(a_reply().pack())
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] = data.draw(st.integers(0, 255))
    try:
        found = HostReply.unpack(bytes(message))
    except HostError:
        return  # and nothing else
    assert HostReply.unpack(found.pack()) == found, "what is believed is a whole reply"


@pytest.mark.parametrize("wrong", [None, 3, "text", [b"bytes"], b""])
def test_what_is_no_message_is_refused(wrong: object) -> None:
    with pytest.raises(HostError):
        HostReply.unpack(wrong)


def test_records_are_numbered_from_the_first() -> None:
    wrong = replace(a_reply(), records=deflate(records_to_json([make_record(id=4)])))
    with pytest.raises(HostError, match="numbered"):
        HostReply.unpack(wrong.pack())


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.tuning.hosts.messages.LONGEST_PART", 1 << 16)
    bomb = replace(a_reply(), records=deflate("[" + "0," * (1 << 16) + "0]"))
    with pytest.raises(HostError, match="too long"):
        HostReply.unpack(bomb.pack())


def test_a_header_that_lies_about_its_parts_is_refused() -> None:
    header, frames = unpack(a_reply().pack())
    good = pack(header, frames)
    assert HostReply.unpack(good).told == [-1, 7]
    text = json.dumps({**header, "frames": [1, 2, 3]}).encode()
    with pytest.raises(HostError, match="cut off"):
        unpack(b"schedlang-hosts-1\n%d\n%s%s" % (len(text), text, b"".join(frames)))


def test_details_of_hosts_have_lanes_of_their_own() -> None:
    details = RunDetails(make_details(1, 2).trials, (Phase("search", 1.0, 2.0),))
    moved = details.of_host(2)
    assert {one.worker - 2000 for one in moved.trials} == {one.worker for one in details.trials}
    assert moved.phases == details.phases
