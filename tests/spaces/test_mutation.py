"""Changing some decisions of a trace, and the probability of the way back."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from schedlang.errors import InvalidTrace, SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule, Trace
from schedlang.spaces.module import module
from schedlang.spaces.mutation import KEEP, log_ratio, revise
from schedlang.spaces.space import Space
from schedlang.testing.spaces import FRAGILE
from schedlang.tvm.program import structural_key
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload


@module
def nested(sch: Schedule, block: BlockRV) -> None:
    """The inner tile depends on the outer draw; a choice brings a draw of its own."""
    i, j, _ = sch.get_loops(block)
    _, inner = sch.split(i, [None, sch.sample_categorical([2, 4, 12], name="inner")])
    sch.split(inner, sch.sample_perfect_tile(inner, n=2, name="tile"))
    if sch.choose("unrolled", (True, False)):
        sch.split(j, sch.sample_perfect_tile(j, n=2, name="tile j"))
        sch.unroll(sch.get_loops(block)[-2])


SPACE = Space([nested])
OLD = {"inner": 12, "tile": (4, 3)}


@pytest.fixture(scope="module")
def workload() -> Workload:
    return matmul(12, 12, 12)


@pytest.fixture
def plain(workload: Workload) -> Trace:
    return SPACE.sample(workload, decisions=OLD, choices={"unrolled": False}).trace


def test_what_is_wanted_is_taken_and_the_rest_kept(plain: Trace) -> None:
    revised = revise(plain, {"tile": (2, 6)}, random.Random(0))
    assert revised.trace.decisions == {"inner": 12, "tile": (2, 6)}
    again = plain.with_decisions({"tile": (2, 6)}).replay()
    assert structural_key(revised.mod) == structural_key(again.mod)


def test_a_draw_whose_distribution_changed_takes_the_nearest_or_a_fresh_one(plain: Trace) -> None:
    """The nearest with probability KEEP, at least: 200 draws below 0.8 happen once in 10^5."""
    repaired = revise(plain, {"inner": 4}, None).trace
    assert repaired.decisions["inner"] == 4
    nearest = repaired.decisions["tile"]
    assert math.prod(nearest) == 4
    drawn = [revise(plain, {"inner": 4}, random.Random(s)).trace.decisions for s in range(200)]
    assert {d["inner"] for d in drawn} == {4}
    tiles = [d["tile"] for d in drawn]
    assert len(set(tiles)) > 1 and all(math.prod(tile) == 4 for tile in tiles)
    assert tiles.count(nearest) > 0.8 * len(tiles)


def test_a_choice_runs_the_program_again(plain: Trace) -> None:
    revised = revise(plain, {"unrolled": 0}, random.Random(0), space=SPACE).trace
    assert revised.choices == {"unrolled": True}
    assert {site: revised.decisions[site] for site in OLD} == OLD
    assert math.prod(revised.decisions["tile j"]) == 12
    back = revise(revised, {"unrolled": 1}, random.Random(0), space=SPACE).trace
    assert back == plain


@pytest.mark.parametrize("wanted", [True, "True", 0])
def test_an_option_is_wanted_as_itself_as_text_or_by_its_number(plain: Trace, wanted: Any) -> None:
    revised = revise(plain, {"unrolled": wanted}, random.Random(0), space=SPACE).trace
    assert revised.choices == {"unrolled": True}
    kept = revise(plain, {"unrolled": False}, random.Random(0), space=SPACE).trace
    assert kept == plain


@pytest.mark.parametrize(
    ("wanted", "space", "said"),
    [
        ({"unrolled": "true"}, SPACE, "has no option 'true'; give one of True, False"),
        ({"unrolled": 2}, SPACE, "has no option 2"),
        ({"unrolled": True}, None, "'unrolled' is a choice: with space="),
        ({"tiel": (4, 3)}, None, "no site 'tiel' in this trace; it has 'inner'"),
    ],
)
def test_what_cannot_be_wanted(plain: Trace, wanted: Any, space: Any, said: str) -> None:
    with pytest.raises(SpaceError, match=said):
        revise(plain, wanted, random.Random(0), space=space)


@pytest.mark.parametrize("space", [None, SPACE])
@pytest.mark.parametrize("wanted", [{"tile": (5, 5)}, {"inner": "12"}])
def test_a_decision_outside_its_distribution_is_a_rejection(
    plain: Trace, wanted: Any, space: Any
) -> None:
    with pytest.raises(InvalidTrace, match=r"decision .* is not in ") as error:
        revise(plain, wanted, random.Random(0), space=space)
    assert error.value.reason == "decision" and error.value.site in wanted


def test_without_a_generator_nothing_is_drawn(plain: Trace) -> None:
    one, other = (revise(plain, {"unrolled": 0}, None, space=SPACE).trace for _ in range(2))
    assert one == other
    assert one.decisions["tile j"] == one.distributions["tile j"].origin()


def test_an_instruction_that_does_not_apply_is_an_invalid_trace() -> None:
    trace = FRAGILE.sample(matmul(32, 32, 32), decisions={"factor": 4}).trace
    with pytest.raises(InvalidTrace, match="split"):
        revise(trace, {"factor": 3}, random.Random(0))


def test_the_ratio_of_a_change_that_nothing_depends_on_is_that_of_its_proposal(
    plain: Trace,
) -> None:
    new = plain.with_decisions({"tile": (2, 6)}).replay().trace
    assert log_ratio(plain, new, {"tile": 0.25}) == pytest.approx(0.25)


def test_the_ratio_counts_what_was_carried_over_and_what_would_be_on_the_way_back(
    plain: Trace,
) -> None:
    """By hand: 3 ways to tile 4 in two, 6 to tile 12."""
    new = plain.with_decisions({"inner": 4, "tile": (2, 2)}).replay().trace
    there = new.distributions["tile"].repair((4, 3))
    back = plain.distributions["tile"].repair((2, 2))
    forward = (1 - KEEP) / 3 + KEEP * (there == (2, 2))
    backward = (1 - KEEP) / 6 + KEEP * (back == (4, 3))
    assert log_ratio(plain, new, {"inner": 0.5}) == pytest.approx(
        0.5 + math.log(backward) - math.log(forward)
    )


def test_the_ratio_counts_draws_that_come_and_go(workload: Workload, plain: Trace) -> None:
    """The prior of the new draw is the way there, nothing is drawn on the way back."""
    given = {**OLD, "tile j": (3, 4)}
    new = SPACE.sample(workload, decisions=given, choices={"unrolled": True}).trace
    drawn = new.distributions["tile j"].log_prob((3, 4))
    assert log_ratio(plain, new, {"unrolled": 0.0}) == pytest.approx(-drawn)
    assert log_ratio(new, plain, {"unrolled": 0.0}) == pytest.approx(drawn)


def test_the_way_back_has_the_opposite_ratio(workload: Workload) -> None:
    rng = random.Random(0)
    for seed in range(10):
        old = SPACE.sample(workload, seed=seed).trace
        wanted = {"inner": rng.choice([2, 4, 12])}
        new = revise(old, wanted, rng).trace
        assert log_ratio(old, new, {}) == pytest.approx(-log_ratio(new, old, {}))
