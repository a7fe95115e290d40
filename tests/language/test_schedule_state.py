"""What a schedule keeps: its handles, its copies, and what is undone."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.instructions.instruction import KINDS
from schedlang.instructions.kinds import Primitive
from schedlang.language.schedule import Schedule
from schedlang.tvm.program import structurally_equal
from tests.language.primitives.tensors import CASES
from tests.language.programs import everything, product


@sl.instruction
def transform_then_give_up(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Transforms, and then says that it does not apply."""
    sch.add_unit_loop(block)
    raise NotApplicable("too late")


@sl.instruction
def transform_then_fail(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Transforms, and then breaks."""
    sch.add_unit_loop(block)
    sch.fuse()


# -- handles ---------------------------------------------------------------------------------------


def test_handles_of_another_schedule_are_refused() -> None:
    sch, other = Schedule(product()), Schedule(product())
    block, foreign = sch.get_block("C"), other.get_block("C")
    drawn = other.sample_categorical([2, 4])
    (loop, *_), theirs = sch.get_loops(block), other.get_loops(foreign)
    for use in (
        lambda: sch.get_loops(foreign),
        lambda: sch.unroll(theirs[0]),
        lambda: sch.fuse(loop, theirs[1]),
        lambda: sch.split(loop, [None, drawn]),
        lambda: sch.split(loop, [None, drawn * 2]),
        lambda: sch.annotate(loop, "note", [drawn]),
        lambda: sch.transform_layout(block, ("read", 0), lambda n, m: (n // drawn, m, n % drawn)),
    ):
        with pytest.raises(InstructionError, match="is a handle of another schedule"):
            use()
    for look in (lambda: sch.get(foreign), lambda: sch.extent(theirs[0])):
        with pytest.raises(sl.SchedlangError, match="is a handle of another schedule"):
            look()
    assert len(sch.trace) == 2


def test_a_replayed_schedule_has_handles_of_its_own() -> None:
    sch = Schedule(product())
    block = sch.get_block("C")
    again = sch.trace.without(0).replay()
    with pytest.raises(InstructionError, match="is a handle of another schedule"):
        again.get_loops(block)


def test_a_block_may_be_given_by_name() -> None:
    sch = Schedule(product())
    by_name, by_handle = sch.get_loops("C"), sch.get_loops(sch.get_block("C"))
    assert [sch.extent(loop) for loop in by_name] == [sch.extent(loop) for loop in by_handle]
    assert [i.kind.name for i in sch.trace.instructions] == ["get_block", "get_loops"] * 2


def test_a_refused_instruction_changes_nothing() -> None:
    sch = everything(0)
    trace, mod = sch.trace, sch.mod
    block, *loops = (h for i in trace.instructions for h in i.outputs if type(h) is not sl.IntRV)
    for refused in (
        lambda: sch.get_block("missing"),
        lambda: sch.fuse(),
        lambda: sch.split(loops[-1], [3]),
        lambda: sch.sample_categorical([1, 2], decision=3),
        lambda: sch.choose("fork", ()),
        lambda: transform_then_fail(sch, block),
    ):
        with pytest.raises(InstructionError):
            refused()
    assert sch.trace == trace
    assert structurally_equal(sch.mod, mod)
    assert sch.sample_categorical([1, 2]).index == 27
    assert list(sch.trace.decisions)[-1] == "sample_categorical"


# -- copies ----------------------------------------------------------------------------------------


def test_a_copy_is_independent_and_takes_the_same_handles() -> None:
    sch = Schedule(product(), seed=0)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    width = sch.sample_categorical([2, 4], name="width", decision=2)
    other = sch.copy()
    trace, mod = sch.trace, sch.mod
    assert other.trace == trace and other.workload is sch.workload

    other.split(i, [None, width * 2])
    other.sample_categorical([1, 2], name="width")
    assert sch.trace == trace
    assert structurally_equal(sch.mod, mod)

    outer, inner = sch.split(j, [None, width])
    sch.unroll(inner)
    assert [instruction.kind.name for instruction in other.trace.instructions[3:]] == [
        "split", "sample_categorical",
    ]  # fmt: skip
    for schedule in (sch, other):
        assert structurally_equal(schedule.trace.replay().mod, schedule.mod)
    with pytest.raises(InstructionError, match="is a handle of another schedule"):
        other.unroll(outer)
    assert [other.extent(loop) for loop in (j, k)] == [16, 16]


def test_a_copy_made_inside_a_module_records_for_it() -> None:
    sch = Schedule(product())
    with sch.within("outer"):
        other = sch.copy()
    other.get_block("C")
    sch.get_block("C")
    assert other.trace.instructions[0].module == "outer"
    assert sch.trace.instructions[0].module == ""


def test_a_copy_after_tensorize_takes_the_same_handles() -> None:
    """TVM's own copy fails there."""
    (case,) = [case for case in CASES if case.name == "tensorize"]
    sch = Schedule(case.workload())
    i, _ = sch.get_loops("B")
    case.apply(sch)
    other = sch.copy()
    assert other.trace == sch.trace
    assert structurally_equal(other.mod, sch.mod)
    other.unroll(i)
    assert structurally_equal(other.trace.replay().mod, other.mod)
    assert not structurally_equal(other.mod, sch.mod)


# -- undoing ---------------------------------------------------------------------------------------


def test_what_a_module_did_before_it_gave_up_is_undone() -> None:
    sch = Schedule(product(), seed=0)
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    width = sch.sample_categorical([2, 4], name="width")
    outer, inner = sch.split(loops[0], [None, width])
    trace, mod = sch.trace, sch.mod
    mark = sch.mark()
    with pytest.raises(NotApplicable), sch.within("tiling"):
        sch.sample_perfect_tile(loops[1], 2, name="width")
        sch.choose("fork", (1, 2))
        gone, _ = sch.split(loops[1], [None, 4])
        sch.unroll(inner)
        raise NotApplicable("no")
    sch.rollback(mark)
    assert sch.trace == trace
    assert structurally_equal(sch.mod, mod)

    with pytest.raises(InstructionError, match="is a handle of another schedule"):
        sch.unroll(gone)
    sch.reorder(inner, outer)
    sch.split(loops[2], [None, width * 2])
    assert sch.sample_categorical([1, 2], name="width").index == 9
    assert list(sch.trace.decisions) == ["width", "width#1"]
    assert structurally_equal(sch.trace.replay().mod, sch.mod)


def test_only_looking_around_is_undone_too() -> None:
    sch = Schedule(product(), seed=0)
    block = sch.get_block("C")
    raw, mark = sch.raw, sch.mark()
    sch.sample_perfect_tile(sch.get_loops(block)[0], 2)
    sch.rollback(mark)
    assert sch.raw is raw
    assert len(sch.trace) == 1
    assert [loop.index for loop in sch.get_loops(block)] == [1, 2, 3]


@pytest.mark.parametrize("instruction", [transform_then_give_up, transform_then_fail])
def test_an_instruction_that_fails_halfway_leaves_no_trace(instruction: object) -> None:
    sch = everything(0)
    handles = [handle for i in sch.trace.instructions for handle in i.outputs]
    block = handles[0]
    trace, mod = sch.trace, sch.mod
    with pytest.raises((NotApplicable, InstructionError)):
        instruction(sch, block)  # type: ignore[operator]
    assert sch.trace == trace
    assert structurally_equal(sch.mod, mod)
    loops = sch.get_loops(block)
    sch.unroll(loops[0])
    assert structurally_equal(sch.trace.replay().mod, sch.mod)


def test_a_fault_of_tvm_halfway_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS["unroll"]
    assert isinstance(kind, Primitive)
    unroll = kind.apply

    def breaks(raw: object, loop: object) -> None:
        unroll(raw, loop)
        raise RuntimeError("Check failed: (p != nullptr) is false")

    sch = Schedule(product())
    block = sch.get_block("C")
    loop = sch.get_loops(block)[0]
    monkeypatch.setattr(kind, "apply", breaks)
    with pytest.raises(InstructionError, match="Check failed.*p != nullptr"):
        sch.unroll(loop)
    monkeypatch.undo()
    assert structurally_equal(sch.mod, product().mod)
    sch.unroll(loop)
    assert structurally_equal(sch.trace.replay().mod, sch.mod)


def test_a_space_undoes_what_did_not_apply() -> None:
    @sl.module
    def gives_up(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.annotate(block, "note", 1)
        transform_then_give_up(sch, block)

    @sl.module
    def works(sch: sl.Schedule, block: sl.BlockRV) -> None:
        sch.unroll(sch.get_loops(block)[0])

    sch = sl.Space([gives_up, works, gives_up.renamed("again")]).sample(product())
    alone = sl.Space([works]).sample(product())
    assert sch.trace == alone.trace
    assert structurally_equal(sch.mod, alone.mod)


def test_an_inner_schedule_has_no_workload() -> None:
    @sl.instruction
    def asks_for_the_workload(sch: sl.Schedule) -> None:
        assert structurally_equal(sch.mod, product().mod)
        _ = sch.workload

    with pytest.raises(SpaceError, match="inside an instruction there is no workload"):
        asks_for_the_workload(Schedule(product()))
