"""Replaying: the policies for decisions that do not fit, other workloads, and probabilities."""

from __future__ import annotations

import math
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import InvalidTrace, SpaceError
from schedlang.interpreters.replay import Change
from schedlang.language.schedule import Schedule, Trace, assess, replay, resample
from schedlang.tvm.program import structurally_equal
from tests.language.programs import SPACE, convolution, everything, product


def tiled(seed: int | None = None, n: int = 16, **decisions: Any) -> Schedule:
    """The product with ``i`` tiled by drawn factors and ``j`` by a drawn width."""
    sch = Schedule(product(n), seed=seed)
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_perfect_tile(i, 2, 8, name="tile", decision=decisions.get("tile")))
    width = sch.sample_categorical(
        [2, 4, 8], [0.5, 0.25, 0.25], name="width", decision=decisions.get("width")
    )
    sch.split(j, [None, width])
    return sch


# -- decisions that do not fit ---------------------------------------------------------------------


def test_rejecting_names_the_site_the_value_and_the_support() -> None:
    trace = tiled(seed=0).trace.with_decisions({"tile": [1, 16]})
    with pytest.raises(InvalidTrace) as caught:
        trace.replay()
    error = caught.value
    assert (error.reason, error.site, error.value) == ("decision", "tile", (1, 16))
    assert error.support == str(trace.distributions["tile"])
    assert str(error) == f"decision (1, 16) of 'tile' is not in the support of {error.support}"


def test_repairing_takes_the_nearest_and_says_so() -> None:
    trace = tiled(width=8, tile=(4, 4)).trace.with_decisions({"tile": (1, 16), "width": 5})
    sch = trace.replay(misfit="repair")
    support = {site: str(d) for site, d in trace.distributions.items()}
    assert sch.changes == (
        Change("tile", (1, 16), (2, 8), support["tile"]),
        Change("width", 5, 4, support["width"]),
    )
    assert sch.trace.decisions == {"tile": (2, 8), "width": 4}
    assert str(sch.changes[1]) == f"width: 5 -> 4, as it must be in {support['width']}"
    assert structurally_equal(sch.mod, tiled(tile=(2, 8), width=4).mod)


def test_resampling_draws_another_and_says_so() -> None:
    trace = tiled(width=8, tile=(4, 4)).trace.with_decisions({"width": 3})
    used = set()
    for seed in range(40):
        sch = replay(trace, misfit="resample", seed=seed)
        (change,) = sch.changes
        assert (change.site, change.recorded) == ("width", 3)
        assert sch.trace.decisions == {"tile": (4, 4), "width": change.used}
        used.add(change.used)
    assert used == {2, 4, 8}
    one, again = (replay(trace, misfit="resample", seed=7).trace for _ in range(2))
    assert one == again


@pytest.mark.parametrize("misfit", ["reject", "resample", "repair"])
def test_what_fits_is_kept(misfit: Any) -> None:
    sch = everything(0)
    again = sch.trace.replay(misfit=misfit, seed=3)
    assert again.changes == ()
    assert again.trace == sch.trace
    assert structurally_equal(again.mod, sch.mod)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(SpaceError, match="'reject', 'resample' or 'repair', not 'ignore'"):
        everything(0).trace.replay(misfit="ignore")  # type: ignore[arg-type]


def test_a_later_support_follows_from_earlier_decisions() -> None:
    def nested(outer: tuple[int, int], inner: tuple[int, int]) -> Trace:
        sch = Schedule(product())
        i, *_ = sch.get_loops(sch.get_block("C"))
        _, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, name="outer", decision=outer))
        sch.split(i1, sch.sample_perfect_tile(i1, 2, name="inner", decision=inner))
        return sch.trace

    trace = nested((2, 8), (2, 4)).with_decisions({"outer": (4, 4)})
    with pytest.raises(InvalidTrace, match=r"\(2, 4\) of 'inner'.*PerfectTile\(4"):
        trace.replay()
    assert trace.replay(misfit="repair").trace == nested((4, 4), (1, 4))


def test_an_instruction_that_does_not_apply_is_invalid() -> None:
    sch = Schedule(product())
    with sch.within("outer"), sch.within("inner"):
        block = sch.get_block("C")
        sch.split(
            sch.get_loops(block)[0], [None, sch.sample_int_range(0, 9, name="factor", decision=4)]
        )
    with pytest.raises(InvalidTrace) as caught:
        sch.trace.with_decisions({"factor": 0}).replay()
    error = caught.value
    assert (error.reason, error.site, error.value, error.support) == (
        "instruction",
        "split",
        None,
        "",
    )
    assert "split(loop=l1, factors=[None, v4]" in str(error)
    assert "(module outer/inner)" in str(error)
    assert "positive" in str(error)


# -- other workloads -------------------------------------------------------------------------------


def test_another_shape_rejects_or_repairs() -> None:
    trace = tiled(tile=(2, 8), width=8).trace
    with pytest.raises(InvalidTrace, match=r"\(2, 8\) of 'tile' is not in the support"):
        trace.replay(product(24))
    sch = trace.replay(product(24), misfit="repair")
    assert [change.site for change in sch.changes] == ["tile"]
    assert sch.workload is product(24)
    assert sch.trace.workload is product(24)
    assert sch.trace.distributions["tile"] == sl.PerfectTile(24, 2, 8)
    assert structurally_equal(sch.mod, tiled(n=24, tile=(3, 8), width=8).mod)


def test_another_program_is_invalid() -> None:
    with pytest.raises(InvalidTrace, match="C") as caught:
        everything(0).trace.replay(convolution())
    assert (caught.value.reason, caught.value.site) == ("instruction", "get_block")


def test_a_trace_without_a_workload_asks_for_one() -> None:
    trace = Trace.from_json(everything(0).trace.to_json())
    for interpret in (replay, resample, assess, Trace.flattened, Trace.as_python):
        with pytest.raises(SpaceError, match="has no workload: give one"):
            interpret(trace)
    assert assess(trace, product()) == pytest.approx(trace.log_prob())


def test_a_function_or_module_is_a_workload_too() -> None:
    trace = everything(0).trace
    for program in (product().mod, product().func):
        assert structurally_equal(trace.replay(program).mod, trace.replay().mod)


# -- what the replayed schedule is -----------------------------------------------------------------


def test_scheduling_goes_on_where_the_replay_ended() -> None:
    sch = tiled(tile=(2, 8), width=4).trace.replay()
    block = sch.get_block("C")
    sch.vectorize(sch.get_loops(block)[3])
    sch.sample_categorical([1, 2], name="width")
    assert list(sch.trace.decisions) == ["tile", "width", "width#1"]
    again = sch.trace.replay()
    assert structurally_equal(again.mod, sch.mod)
    for schedule in (sch, again):
        schedule.sample_categorical([1, 2], name="width", decision=1)
    assert again.trace == sch.trace
    assert list(again.trace.decisions)[-1] == "width#2"


@pytest.mark.parametrize("stored", [False, True])
def test_handles_show_the_decisions_of_the_replay(stored: bool) -> None:
    trace = tiled(tile=(2, 8), width=4).trace.with_decisions({"tile": (4, 4), "width": 8})
    if stored:
        trace = Trace.from_json(trace.to_json(), product())
    shown = [
        int(handle)
        for instruction in trace.replay().trace.instructions
        for handle in instruction.outputs
        if isinstance(handle, sl.IntRV)
    ]
    assert shown == [4, 4, 8]


def test_a_replayed_schedule_is_independent_of_the_first() -> None:
    sch = tiled(seed=0)
    before = sch.mod
    again = sch.trace.replay()
    again.unroll(again.get_loops(again.get_block("C"))[0])
    assert structurally_equal(sch.mod, before)
    assert len(again.trace) == len(sch.trace) + 3


# -- probabilities ---------------------------------------------------------------------------------


def test_log_prob_is_the_sum_over_draws_and_choices() -> None:
    sch = tiled(tile=(2, 8), width=8)
    sch.choose("fork", ("left", "right"), probs=[3, 1], decision=1)
    sch.choose("same", (1, 2, 3, 4), decision=0)
    # 16 = 2 * 8 is one of the 4 factorisations whose inner factor is at most 8.
    by_hand = math.log(1 / 4) + math.log(0.25) + math.log(0.25) + math.log(1 / 4)
    assert sch.trace.log_prob() == pytest.approx(by_hand)
    assert assess(sch.trace) == pytest.approx(by_hand)
    assert Schedule(product()).trace.log_prob() == 0.0


def test_log_prob_of_what_cannot_be_drawn_is_minus_infinity() -> None:
    trace = tiled(tile=(2, 8), width=8).trace.with_decisions({"width": 3})
    assert trace.log_prob() == -math.inf
    assert assess(trace) == -math.inf


def test_assess_uses_the_distributions_it_finds() -> None:
    trace = tiled(tile=(2, 8), width=8).trace
    # 24 has 6 factorisations with an inner factor of at most 8: 1, 2, 3, 4, 6, 8.
    fits = trace.with_decisions({"tile": (3, 8)})
    assert assess(fits, product(24)) == pytest.approx(math.log(1 / 6) + math.log(0.25))
    assert assess(trace, product(24)) == -math.inf


def test_resampling_a_sketch_keeps_the_instructions_and_draws_the_decisions() -> None:
    sch = everything(0)
    drawn = [resample(sch.trace, seed=seed) for seed in range(30)]
    assert {other.trace.choices["unroll"] for other in drawn} == {sch.trace.choices["unroll"]}
    for other in drawn:
        kinds = [instruction.kind.name for instruction in other.trace.instructions]
        assert kinds == [instruction.kind.name for instruction in sch.trace.instructions]
        for site, distribution in other.trace.distributions.items():
            if site in other.trace.decisions:
                assert distribution.permits(other.trace.decisions[site])
        assert structurally_equal(other.trace.replay().mod, other.mod)
    assert {other.trace.decisions["width"] for other in drawn} == {2, 4, 8}
    assert resample(sch.trace, seed=5).trace == drawn[5].trace


def test_a_sketch_is_sampled_with_a_seed() -> None:
    sketch = SPACE.sketches(convolution())[0]
    assert sketch.sample(seed=4).trace == sketch.sample(seed=4).trace
    assert len({sketch.sample(seed=seed).trace for seed in range(5)}) > 1
