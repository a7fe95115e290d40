"""What rejections name as their cause, however the program was made."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.errors import InstructionError, InvalidTrace
from schedlang.search.proposals import Proposals
from tests.spaces.programs import product


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV, *, parts: int = 2) -> None:
    loops = sch.get_loops(block)
    rows = sch.split(loops[0], sch.sample_perfect_tile(loops[0], parts, name="rows"))
    sch.split(loops[1], [8, sch.sample_categorical([2, 4, 8], name="width")])
    sch.unroll(rows[-1])


@sl.module(at="root")
def finish(sch: sl.Schedule) -> None:
    steps = sch.sample_categorical([0, 16], name="unroll")
    sch.annotate(sch.get_block("root"), "steps", steps)


SPACE = sl.Space([tile, finish])


def culprit(error: InvalidTrace | InstructionError) -> tuple[str, str]:
    proposals = Proposals(product())
    proposals.refuse(error)
    [rejection] = proposals.rejections
    return rejection.reason, rejection.where


def replayed(trace: sl.Trace) -> InvalidTrace:
    with pytest.raises(InvalidTrace) as info:
        trace.replay()
    return info.value


def test_an_instruction_that_fails_in_the_module() -> None:
    @sl.module
    def wrong(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.split(sch.get_loops(block)[0], [3, 3])

    with pytest.raises(InstructionError) as info:
        sl.Space([wrong]).sample(product())
    assert culprit(info.value) == ("instruction", "wrong: split at block C")
    inside = sl.Space([sl.Space([wrong]).as_module("mine")])
    with pytest.raises(InstructionError) as info:
        inside.sample(product())
    assert culprit(info.value) == ("instruction", "mine/wrong: split at block C")


def test_an_argument_that_cannot_be_read() -> None:
    @sl.module
    def confused(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.split(sch.get_loops(block), [2, 8])  # type: ignore[arg-type]

    with pytest.raises(InstructionError) as info:
        sl.Space([confused]).sample(product())
    assert culprit(info.value) == ("instruction", "confused: split at block C")


def test_an_instruction_that_fails_at_replay() -> None:
    trace = SPACE.sample(product(), decisions={"width": 2}).trace
    names = [i.kind.name for i in trace.instructions]
    assert names.count("split") == 2
    other = sl.Trace(trace.instructions, sl.workloads.matmul(16, 24, 16))
    error = replayed(other)
    assert (error.reason, error.module, error.block) == ("instruction", "tile", "C")
    assert culprit(error) == ("instruction", "tile: split at block C")


def test_a_decision_that_does_not_fit() -> None:
    trace = SPACE.sample(product()).trace
    error = replayed(trace.with_decisions({"rows": (3, 5)}))
    assert (error.site, error.module, error.block) == ("rows", "tile", "C")
    assert culprit(error) == ("decision", "tile: decision of 'rows' at block C")
    error = replayed(trace.with_decisions({"unroll": 7}))
    assert culprit(error) == ("decision", "finish: decision of 'unroll'")


def test_without_a_module() -> None:
    sch = sl.Schedule(product())
    i, *_ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, n=2, name="rows"))
    error = replayed(sch.trace.with_decisions({"rows": (3, 5)}))
    assert culprit(error) == ("decision", "rows at block C")
    with pytest.raises(InstructionError) as info:
        sch.split(i, [2, 8])
    assert culprit(info.value) == ("instruction", "split")


def test_a_run_reports_them() -> None:
    @sl.module
    def hopeless(sch: sl.Schedule, block: sl.BlockRV) -> None:
        i = sch.get_loops(block)[0]
        sch.split(i, sch.sample_perfect_tile(i, n=2, name="rows"))
        sch.split(i, [2, 8])

    result = sl.tune(product(), space=hopeless, trials=1, finals=0)
    assert result.culprits == [("hopeless: split at block C", 200)]
    assert "mostly by hopeless: split at block C" in str(result)
