"""What descents expect of their steps."""

from __future__ import annotations

import math

import pytest

from schedlang.language.schedule import Trace
from schedlang.measurement.clock import Stopwatch
from schedlang.search import Outcome
from schedlang.search.coordinate_descent import CoordinateDescent
from schedlang.search.coordinate_models import Step, StepModel, steps_from
from schedlang.search.proposals import Proposals
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.testing.strategy import made_up_outcome
from schedlang.workloads.workload import Workload
from tests.search.analytic_models import TILES
from tests.search.made_up import enter, timed


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def at(workload: Workload, h: int, w: int) -> Trace:
    return TILES.sample(workload, decisions={"h": h, "w": w}).trace


def learned(workload: Workload, sides: tuple[int, ...]) -> StepModel:
    """Latency falls with ``h``, and does not depend on ``w``."""
    proposals = Proposals(workload)
    for h in sides:
        for w in sides:
            enter(proposals, TILES.sample(workload, decisions={"h": h, "w": w}), 1 / h)
    return StepModel(proposals, 0, Stopwatch())


def test_before_there_are_outcomes_enough_steps_do_what_they_last_did(workload: Workload) -> None:
    expect = learned(workload, (1, 31, 61))
    known = Step("h", 36)
    expect.gains[known] = -0.5
    here = at(workload, 31, 31)
    assert not expect.learn() and expect.threshold == 0
    assert expect.of_steps(here) == {
        step: -0.5 if step == known else 0.0 for step in steps_from(here)
    }
    assert expect.of_all(here, (known, Step("w", 36))) == -0.5


def test_the_model_says_where_it_gets_faster(workload: Workload) -> None:
    expect = learned(workload, (6, 11, 16, 21, 26, 31, 36, 41, 46, 51))
    here = at(workload, 31, 31)
    expected = expect.of_steps(here)
    assert expect.learn() and expect.threshold < 0
    assert list(expected) == steps_from(here)
    assert expected[Step("h", 36)] < -0.01 < 0.01 < expected[Step("h", 26)]
    assert abs(expected[Step("w", 36)]) < 0.01
    both = (Step("h", 51), Step("w", 36))
    assert 2 * math.log(31 / 51) < expect.of_all(here, both) < 2 * expected[Step("h", 36)]


def test_what_a_step_did_counts_as_much(workload: Workload) -> None:
    expect = learned(workload, (6, 11, 16, 21, 26, 31, 36, 41, 46, 51))
    here, step = at(workload, 31, 31), Step("h", 36)
    said = expect.of_steps(here)[step]
    expect.gains[step] = 0.4
    assert expect.of_steps(here)[step] == said, "it is computed once"
    expect.forget()
    assert expect.of_steps(here)[step] == pytest.approx((said + 0.4) / 2)


@pytest.mark.parametrize(("restarts", "tried"), [(None, False), (0, True)])
def test_hopeless_steps_are_left_out_while_lines_start_elsewhere(
    workload: Workload, restarts: int | None, tried: bool
) -> None:
    """Small ``h`` is slow, all say: a line from the best goes there only if there is no other."""
    strategy = CoordinateDescent(
        TILES, workload, start=at(workload, 96, 46), lines=1, restarts=restarts
    )
    for h in range(46, 96, 10):
        for w in range(16, 86, 10):
            proposal = strategy.adopt(TILES.sample(workload, decisions={"h": h, "w": w}))
            assert proposal is not None
            strategy.tell([flat(proposal.id, h)])
    seen = []
    for _ in range(12):
        asked = strategy.ask(4)
        seen += [p.trace.decisions for p in asked]
        strategy.tell([flat(p.id, p.trace.decisions["h"]) for p in asked])
    assert ({"h": 91, "w": 46} in seen) is tried


def flat(number: int, h: int) -> Outcome:
    """Ten times slower below 96."""
    return timed(number, 1.0 if h >= 96 else 10.0)


def test_a_descent_that_learned_goes_on_where_it_was_saved(workload: Workload) -> None:
    strategy = CoordinateDescent(ORDINARY, workload, 3)
    count = 0
    while count < 40:
        asked = strategy.ask(4)
        count += len(asked)
        strategy.tell([made_up_outcome(p) for p in asked])
    waiting = strategy.ask(4)
    assert waiting
    again = CoordinateDescent(ORDINARY, workload, 3)
    again.load(strategy.save())
    for _ in range(8):
        outcomes = [made_up_outcome(p) for p in waiting]
        strategy.tell(outcomes)
        again.tell(outcomes)
        waiting, same = strategy.ask(4), again.ask(4)
        assert [(p.id, p.trace) for p in waiting] == [(p.id, p.trace) for p in same]
    assert strategy.seconds["model"] > 0


def test_what_it_learned_depends_on_how_many_were_told_alone(workload: Workload) -> None:
    """Asked after each outcome or once at the end: it retrains at the same counts."""
    proposals = Proposals(workload)
    often, once = StepModel(proposals, 0, Stopwatch()), StepModel(proposals, 0, Stopwatch())
    for h in range(1, 96, 5):
        for w in range(1, 26, 5):
            schedule = TILES.sample(workload, decisions={"h": h, "w": w})
            enter(proposals, schedule, 1 / (h + 2 * w))
            often.learn()
    here = at(workload, 31, 31)
    assert often.of_steps(here) == once.of_steps(here)


def test_one_failure_of_a_step_does_not_outweigh_a_clear_prediction(workload: Workload) -> None:
    expect = learned(workload, (6, 11, 16, 21, 26, 31, 36, 41, 46, 51))
    here, step = at(workload, 31, 31), Step("h", 36)
    said = expect.of_steps(here)[step]
    expect.gains[step] = math.log(100)
    expect.forget()
    assert expect.of_steps(here)[step] == pytest.approx((said + 0.5) / 2)


def test_a_negative_loss_is_refused(workload: Workload) -> None:
    with pytest.raises(ValueError, match="most_loss=-1: give 0 or more"):
        CoordinateDescent(TILES, workload, most_loss=-1)
