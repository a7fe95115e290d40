"""Traces as values: edits, differences, equality."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from schedlang.errors import SpaceError
from schedlang.language.schedule import Schedule, Trace
from schedlang.tvm.program import structurally_equal
from tests.language.programs import everything, product, recorded


def test_reading_a_trace() -> None:
    trace = everything(0).trace
    assert list(trace.decisions) == [
        "width", "tile j", "sample_partitioned_tile", "order", "items", "sample_int_range", "any",
        "where",
    ]  # fmt: skip
    assert trace.distributions.keys() == trace.decisions.keys()
    assert list(trace.choices) == ["unroll"]
    assert len(trace) == len(trace.instructions)
    assert str(trace).splitlines()[0] == "b0 = sch.get_block('C')"


def test_a_trace_is_frozen() -> None:
    trace = everything(0).trace
    with pytest.raises(FrozenInstanceError):
        trace.instructions = ()  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        trace.instructions[0].site = "other"  # type: ignore[misc]


# -- decisions -------------------------------------------------------------------------------------


def test_other_decisions_make_a_new_trace() -> None:
    sch = everything(0)
    trace = sch.trace
    text = trace.to_json()
    edited = trace.with_decisions({"width": 8, "tile j": (16, 1)})
    assert edited.decisions == {**trace.decisions, "width": 8, "tile j": (16, 1)}
    assert edited.workload is trace.workload
    assert trace.to_json() == text
    assert not structurally_equal(edited.replay(misfit="repair").mod, sch.mod)
    assert trace.with_decisions({}) == trace


def test_decisions_may_be_lists_and_numpy_integers() -> None:
    trace = everything(0).trace
    plain = trace.with_decisions({"width": 8, "tile j": (4, 4)})
    numpy = {"width": np.int64(8), "tile j": [np.int32(4), np.uint8(4)]}
    edited = trace.with_decisions(numpy)
    assert edited == plain
    assert edited.to_json() == plain.to_json()
    assert type(edited.decisions["width"]) is int


def test_unknown_sites_and_choice_points_are_refused() -> None:
    trace = everything(0).trace
    with pytest.raises(SpaceError, match="no site 'tile', 'x' in this trace; it has 'width', 't"):
        trace.with_decisions({"tile": 1, "width": 2, "x": 3})
    with pytest.raises(SpaceError, match="'unroll' is a choice point.*choices={'unroll': ...}"):
        trace.with_decisions({"unroll": 1})
    with pytest.raises(SpaceError, match="no site ''"):
        trace.with_decisions({"": 1})
    with pytest.raises(SpaceError, match="it has none"):
        Schedule(product()).trace.with_decisions({"tile": 1})


# -- leaving out -----------------------------------------------------------------------------------


def test_simplifying_leaves_out_what_nothing_uses() -> None:
    sch = Schedule(product(), seed=0)
    block = sch.get_block("C")
    sch.get_consumers(block)
    i, j, _ = sch.get_loops(block)
    unused = sch.sample_perfect_tile(i, 2)
    assert unused
    used = sch.sample_categorical([2, 4])
    sch.get_loops(sch.get_block("C"))
    sch.split(j, [None, used])
    sch.choose("fork", (1, 2))
    simple = sch.trace.simplified()
    assert [instruction.kind.name for instruction in simple.instructions] == [
        "get_block", "get_loops", "sample_categorical", "split", "choose",
    ]  # fmt: skip
    assert structurally_equal(simple.replay().mod, sch.mod)
    assert Trace.from_json(simple.to_json()) == simple
    assert str(simple).splitlines()[3] == "l5, l6 = sch.split(l2, factors=[None, v4])"


@pytest.mark.parametrize("sch", recorded())
def test_simplifying_keeps_the_program_and_is_done_once(sch: Schedule) -> None:
    simple = sch.trace.simplified()
    assert len(simple) <= len(sch.trace)
    assert simple.simplified() == simple
    assert structurally_equal(simple.replay().mod, sch.mod)
    assert simple.choices == sch.trace.choices


def test_leaving_out_by_kind_and_by_position() -> None:
    sch = everything(0)
    names = [instruction.kind.name for instruction in sch.trace.instructions]
    without_notes = sch.trace.without("annotate")
    assert [i.kind.name for i in without_notes.instructions] == [
        n for n in names if n != "annotate"
    ]
    position = names.index("vectorize")
    without_one = sch.trace.without(position)
    assert [i.kind.name for i in without_one.instructions] == [n for n in names if n != "vectorize"]
    for trace in (without_notes, without_one, sch.trace.without("annotate", position)):
        assert not structurally_equal(trace.replay().mod, sch.mod)
        assert Trace.from_json(trace.to_json()) == trace
    assert sch.trace.without() == sch.trace


def test_what_is_used_later_cannot_be_left_out() -> None:
    trace = everything(0).trace
    with pytest.raises(SpaceError, match=r"split\(.*\) uses v5, which would be removed"):
        trace.without("sample_categorical")
    with pytest.raises(SpaceError, match="uses b0, which would be removed"):
        trace.without(0)
    with pytest.raises(SpaceError, match="no instruction 'fuse' in this trace"):
        trace.without("fuse")
    with pytest.raises(SpaceError, match="no instruction number 99: there are 25"):
        trace.without(99)
    with pytest.raises(SpaceError, match="no instruction number -1"):
        trace.without(-1)


# -- comparing -------------------------------------------------------------------------------------


def test_differences_are_decisions_first_then_instructions() -> None:
    trace = everything(0).trace
    assert trace.diff(trace) == ""
    width = trace.decisions["width"]
    other = 2 if width != 2 else 4
    assert trace.diff(trace.with_decisions({"width": other})) == f"width: {width} -> {other}"
    lines = trace.diff(trace.without("vectorize")).splitlines()
    assert lines[:2] == ["--- old", "+++ new"]
    changed = [line for line in lines[2:] if line.startswith(("-", "+"))]
    assert changed == ["-sch.vectorize(l11)"]


def test_equality_and_hash_are_by_content() -> None:
    one, same, other = everything(0).trace, everything(0).trace, everything(1).trace
    assert one == same and hash(one) == hash(same)
    assert one != other
    assert one == Trace(one.instructions, None)
    assert one != one.without("vectorize")
    assert one != one.to_json()
    assert len({one, same, other, Trace.from_json(one.to_json())}) == 2


def test_the_module_is_stored_but_no_part_of_the_content() -> None:
    def traced(module: str) -> Trace:
        sch = Schedule(product())
        with sch.within(module):
            sch.get_block("C")
        return sch.trace

    assert traced("one") == traced("one")
    assert traced("one") == traced("other")
    assert hash(traced("one")) == hash(traced("other"))
    assert Trace.from_json(traced("one").to_json()).instructions[0].module == "one"


def test_a_printed_program_rebuilds_an_equal_trace() -> None:
    def tiled() -> Schedule:
        sch = Schedule(product())
        with sch.within("tile"):
            i, *_ = sch.get_loops("C")
            sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 4], name="rows"))
        return sch

    trace = tiled().trace
    rebuilt: dict[str, Any] = {}
    exec(trace.as_python(), rebuilt)
    assert rebuilt["sch"].trace == trace
