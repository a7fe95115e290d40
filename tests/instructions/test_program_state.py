"""``ProgramState``: handles of a program outside any schedule, and the loop that applies a line."""

from __future__ import annotations

from dataclasses import replace

import pytest

import schedlang as sl
from schedlang.instructions.handles import BadArgument, ProgramState
from schedlang.instructions.kinds import Macro
from schedlang.interpreters.replay import apply
from schedlang.tvm import program
from schedlang.tvm.schedule import get_module, new_schedule

WORKLOAD = sl.workloads.matmul(16, 16, 16)


def fresh() -> ProgramState:
    return ProgramState(new_schedule(WORKLOAD.mod, detail=False))


def tiled() -> sl.Schedule:
    sch = sl.Schedule(WORKLOAD, seed=0)
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_perfect_tile(i, n=2))
    return sch


def test_a_block_is_found_by_name() -> None:
    state = fresh()
    block = state.get_block("C")
    assert state.own(block) is block
    assert state.get(block).name_hint == "C"


def test_a_handle_of_another_program_is_refused() -> None:
    state, other = fresh(), fresh()
    block = other.get_block("C")
    state.get_block("C")
    with pytest.raises(BadArgument, match="b0 is a handle of another schedule, or was undone"):
        state.own(block)


def test_an_adopted_handle_stands_for_the_same() -> None:
    sch = tiled()
    loop = sch.get_loops(sch.get_block("C"))[-1]
    state = ProgramState(sch.raw)
    adopted = state.adopt(loop, sch.raw_value(loop))
    assert adopted is not loop
    assert state.extent(adopted) == sch.extent(loop) == 16


def test_the_loop_repeats_what_was_recorded() -> None:
    sch, state = tiled(), fresh()
    assert tuple(apply(state, sch.trace.instructions)) == sch.trace.instructions
    assert program.structurally_equal(get_module(state.raw), sch.mod)
    assert [h.index for h in state.handles] == list(range(len(state.values)))


def test_the_loop_refuses_another_number_of_handles() -> None:
    line = list(tiled().trace.instructions)
    loops = next(k for k, i in enumerate(line) if i.kind.name == "get_loops")
    line[loops] = replace(line[loops], outputs=line[loops].outputs[:2])
    with pytest.raises(ValueError, match="it returned 2 handles when recorded, now 3"):
        list(apply(fresh(), line))


@sl.instruction
def inner_loop_of(sch: sl.Schedule, block: sl.BlockRV) -> sl.LoopRV:
    """``for i, j, k: C  ->  k``"""
    return sch.get_loops(block)[-1]


@pytest.mark.parametrize("recording", [False, True])
def test_a_macro_expands_on_a_state(recording: bool) -> None:
    sch = sl.Schedule(WORKLOAD)
    inner_loop_of(sch, sch.get_block("C"))
    found, called = sch.trace.instructions
    assert isinstance(called.kind, Macro)
    state = fresh()
    list(apply(state, [found]))
    expansion = called.kind.expand(state, called.args, recording=recording)
    (loop,) = expansion.handles
    assert expansion.returned is loop
    assert expansion.state.own(loop) is loop
    assert [i.kind.name for i in expansion.line] == ["get_loops"] * recording
