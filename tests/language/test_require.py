"""Constraints on drawn values: ``sch.require``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import schedlang as sl
from schedlang.instructions.choices import MAX_REDRAWS
from schedlang.search import SEARCHES, make_search

LIMIT = 64


@sl.module(at="root")
def tile(sch):
    """Two tiles whose area is bounded."""
    i, j, _ = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.sample_perfect_tile(i, n=2, max_innermost_factor=64, name="rows")
    j0, j1 = sch.sample_perfect_tile(j, n=2, max_innermost_factor=64, name="columns")
    sch.require(i1 * j1 <= LIMIT, "the tile fits the registers")
    sch.split(i, [i0, i1])
    sch.split(j, [j0, j1])


@sl.module(at="root")
def impossible(sch):
    """Nothing that it draws is permitted."""
    drawn = sch.sample_categorical([1, 2, 3], name="drawn")
    sch.require(drawn > 3, "more than there is")


@pytest.fixture(scope="module")
def workload():
    return sl.workloads.matmul(64, 64, 64)


SPACE = sl.Space([tile])


def area(trace) -> int:
    return int(trace.decisions["rows"][1]) * int(trace.decisions["columns"][1])


def test_draws_that_violate_it_are_made_again(workload):
    areas = {area(SPACE.sample(workload, seed=seed).trace) for seed in range(40)}
    assert max(areas) <= LIMIT
    assert len(areas) > 3
    free = sl.Space([tile.__class__(without_constraint, name="tile", at="root")])
    assert max(area(free.sample(workload, seed=seed).trace) for seed in range(40)) > LIMIT


def without_constraint(sch):
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.sample_perfect_tile(i, n=2, max_innermost_factor=64, name="rows")
    sch.sample_perfect_tile(j, n=2, max_innermost_factor=64, name="columns")


def test_what_is_drawn_is_the_prior_given_the_constraint():
    """Exact by enumeration; at 2,000 draws of 6 outcomes 5 sigma: once in 300,000 runs."""

    @sl.module(at="root")
    def pairs(sch):
        a = sch.sample_categorical([1, 2, 3], probs=[0.5, 0.25, 0.25], name="a")
        b = sch.sample_categorical([1, 2, 3], name="b")
        sch.require(a + b <= 4, "small")

    space, small = sl.Space([pairs]), sl.workloads.matmul(8, 8, 8)
    counts: dict[tuple[int, int], int] = {}
    for seed in range(2000):
        decisions = space.sample(small, seed=seed).trace.decisions
        pair = decisions["a"], decisions["b"]
        counts[pair] = counts.get(pair, 0) + 1
    prior = {(a, b): [0.5, 0.25, 0.25][a - 1] / 3 for a in (1, 2, 3) for b in (1, 2, 3)}
    kept = {pair: p for pair, p in prior.items() if sum(pair) <= 4}
    assert set(counts) == set(kept)
    for pair, p in kept.items():
        expected = 2000 * p / sum(kept.values())
        assert abs(counts[pair] - expected) < 5 * expected**0.5


def test_it_is_recorded_printed_and_stored(workload):
    trace = SPACE.sample(workload, seed=0).trace
    assert "sch.require((v" in str(trace)
    assert ") <= 64, why='the tile fits the registers')" in str(trace)
    again = sl.Trace.from_json(trace.to_json(), workload)
    assert again == trace
    assert again.replay().trace == trace
    made: dict = {"sl": sl}
    exec(trace.as_python(), made)
    assert made["sch"].trace == trace
    assert "the tile fits the registers" in str(trace.simplified())
    assert trace.flattened().replay().program_key == trace.replay().program_key


def test_what_tvm_alone_reads_has_no_constraint(workload):
    trace = SPACE.sample(workload, seed=0).trace
    assert "require" not in trace.as_tvm_python()
    sch = trace.replay()
    assert trace.to_tvm_trace(strict=True) is not None
    assert sch.program_key


def test_given_decisions_that_violate_it_raise(workload):
    wanted = {"rows": (1, 64), "columns": (1, 64)}
    with pytest.raises(
        sl.ConstraintError, match=r"fits the registers: requires .* <= 64, where v\d+=64, v\d+=64"
    ) as raised:
        SPACE.sample(workload, decisions=wanted)
    assert raised.value.why == "the tile fits the registers"
    assert raised.value.module == "tile"
    assert raised.value.draws == 1


def test_what_is_not_given_is_drawn_until_it_fits(workload):
    for seed in range(10):
        trace = SPACE.sample(workload, seed=seed, decisions={"rows": (1, 64)}).trace
        assert trace.decisions["rows"] == (1, 64)
        assert area(trace) <= LIMIT


def test_an_edit_that_violates_it_does_not_replay(workload):
    trace = SPACE.sample(workload, seed=0).trace
    edited = trace.with_decisions({"rows": (1, 64), "columns": (1, 64)})
    for form in (edited, sl.Trace.from_json(edited.to_json(), workload)):
        for misfit in ("reject", "resample", "repair"):
            with pytest.raises(sl.InvalidTrace, match="the tile fits the registers") as raised:
                form.replay(misfit=misfit)
            assert raised.value.reason == "constraint"
            assert raised.value.module == "tile"
    assert edited.simplified().decisions == edited.decisions
    with pytest.raises(sl.ConstraintError):
        edited.simplified().replay()


def test_members_of_a_sketch_satisfy_it(workload):
    trace = SPACE.sample(workload, seed=0).trace
    assert max(area(sl.resample(trace, seed=seed).trace) for seed in range(30)) <= LIMIT
    (sketch,) = SPACE.sketches(workload)
    assert area(sketch.trace) <= LIMIT


def test_an_impossible_constraint_says_so(workload):
    with pytest.raises(sl.ConstraintError, match="more than there is: requires v0 > 3") as raised:
        sl.Space([impossible]).sample(workload, seed=0)
    assert raised.value.draws == MAX_REDRAWS
    with pytest.raises(sl.ConstraintError, match="more than there is"):
        sl.Space([impossible]).sketches(workload)


def test_a_constraint_on_what_another_module_drew(workload):
    @sl.module(at="root")
    def first(sch):
        sch.annotate(sch.get_block("C"), "drawn", sch.sample_categorical([1, 2, 8], name="first"))

    @sl.module(at="root")
    def second(sch):
        mine = sch.sample_categorical([1, 2, 8], name="second")
        (one,) = [i.outputs[0] for i in sch.trace.instructions if i.site == "first"]
        sch.require(one <= 2, "the first is small")
        sch.require(mine * one == 2, "their product")

    space = sl.Space([first, second])
    for seed in range(20):
        drawn = space.sample(workload, seed=seed).trace.decisions
        assert drawn["first"] * drawn["second"] == 2


def test_choices_are_made_again_too(workload):
    @sl.module(at="root")
    def forked(sch):
        wide = sch.choose("wide", [False, True], probs=[0.1, 0.9])
        drawn = sch.sample_categorical([4, 32], name="drawn")
        sch.require(drawn * (4 if wide else 1) <= 16, "room")

    space = sl.Space([forked])
    traces = [space.sample(workload, seed=seed).trace for seed in range(30)]
    assert {trace.decisions["drawn"] for trace in traces} == {4}
    assert {trace.choices["wide"] for trace in traces} == {False, True}
    assert len(space.sketches(workload)) == 2


@pytest.mark.parametrize("name", sorted(SEARCHES))
def test_every_search_proposes_only_what_satisfies_it(name, workload):
    strategy = make_search(name, SPACE, workload, 0)
    proposals = strategy.ask(12)
    assert proposals
    strategy.tell([])
    assert all(area(proposal.trace) <= LIMIT for proposal in proposals)


@pytest.mark.parametrize("name", sorted(SEARCHES))
def test_every_search_ends_where_it_cannot_be_satisfied(name, workload):
    strategy = make_search(name, sl.Space([impossible]), workload, 0)
    for _ in range(300):
        assert not strategy.ask(8)
        if strategy.finished:
            break
    assert "more than there is" in str(strategy.finished) or strategy.rejections
    assert {one.reason for one in strategy.rejections} == {"constraint"}
    assert len(strategy.rejections) < 300


@pytest.mark.slow
def test_tune_counts_rejections_by_name(workload):
    result = sl.tune(workload, space=SPACE, search="evolutionary", trials=24, seed=0)
    traces = [sl.Trace.from_json(one.trace_json) for one in result.records if one.trace_json]
    assert max(area(trace) for trace in traces if len(trace)) <= LIMIT
    assert result.rejected["constraint"] > 0
    assert any("tile: the tile fits the registers" in where for where, _ in result.culprits)


def test_joined_conditions(workload):
    sch = sl.Schedule(workload)
    a = sch.sample_categorical([4], name="a")
    b = sch.sample_categorical([8], name="b")
    sch.require((a < b) & (a + b == 12), "both")
    sch.require((a > b) | (b % a == 0), "either")
    trace = sch.trace
    assert trace.replay().trace == trace
    assert sl.Trace.from_json(trace.to_json(), workload) == trace
    with pytest.raises(sl.ConstraintError, match=r"requires \(v0 > v1\) & \(v0 < v1\)"):
        sch.require((a > b) & (a < b), "cannot be")
    with pytest.raises(sl.ConstraintError, match=r"never: requires what is false"):
        sch.require(False, "never")
    sch.require(np.bool_(True), "always")


def test_comparisons_still_behave_as_bools(workload):
    sch = sl.Schedule(workload)
    a = sch.sample_categorical([4], name="a")
    assert (a == 4) and not (a != 4) and a < 5.5
    assert str(a == 4) == "True"
    assert repr(a > 9) == "False"
    assert (a == "4") is False
    assert a in [1, 4]
    assert sorted([sch.sample_categorical([7], name="b"), a], key=int)[0] is a
    block = sch.get_block("C")
    sch.annotate(block, "flag", a == 4)
    assert "True" in str(sch.trace).splitlines()[-1]
    assert sch.choose("fork", [a == 4, a == 5], decision=0)
    assert sl.Trace.from_json(sch.trace.to_json(), workload) == sch.trace
    with pytest.raises(TypeError, match="takes int and IntRV, not True"):
        a + (a == 4)
    with pytest.raises(sl.InstructionError, match="takes an integer"):
        sch.split(sch.get_loops(block)[0], [a == 4, 64])


def test_bad_conditions_are_refused(workload):
    sch = sl.Schedule(workload)
    a = sch.sample_categorical([4], name="a")
    other = sl.Schedule(workload).sample_categorical([4], name="a")
    with pytest.raises(sl.InstructionError, match="takes a comparison or a bool, not IntRV"):
        sch.require(a, "no comparison")
    with pytest.raises(sl.InstructionError, match="compares with a value that is no integer"):
        sch.require(a < 4.5, "a float")
    with pytest.raises(sl.InstructionError, match="compares with a value that is no integer"):
        sch.require(a == (a < 5), "a comparison")
    with pytest.raises(sl.InstructionError, match="handle of another schedule"):
        sch.require(other == 4, "another schedule")
    with pytest.raises(sl.InstructionError, match="a string"):
        sch.require(a == 4, 7)


@pytest.mark.parametrize(
    "stored", [["<=", 1], ["**", 1, 2], ["&", 1, ["?", 1, 2]], "v0", ["<=", "v9", 1], ["<=", {}, 1]]
)
def test_a_stored_condition_that_cannot_be_read(stored, workload):
    trace = SPACE.sample(workload, seed=0).trace
    text = json.loads(trace.to_json())

    def planted(value):
        if isinstance(value, dict):
            return {k: stored if k == "condition" else planted(v) for k, v in value.items()}
        return [planted(v) for v in value] if isinstance(value, list) else value

    with pytest.raises(sl.TraceFormatError):
        sl.Trace.from_json(json.dumps(planted(text)), workload)


def test_an_instruction_may_state_one(workload):
    @sl.instruction
    def bounded(sch, factor: int):
        sch.require(factor <= 8, "a small factor")

    sch = sl.Schedule(workload)
    bounded(sch, sch.sample_categorical([4], name="factor"))
    trace = sch.trace
    assert trace.replay().trace == trace
    with pytest.raises(sl.ConstraintError, match="a small factor"):
        bounded(sch, sch.sample_categorical([16], name="large"))
    assert sch.trace.replay()
