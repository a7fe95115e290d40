"""The model of programs: which of a few it picks, and what of it is saved."""

from __future__ import annotations

import json
import math

import pytest

from schedlang.measurement.clock import Stopwatch
from schedlang.search import CoordinateDescent, Example, GradientBoosting, Outcome
from schedlang.search.coordinate_models import ProgramModel
from schedlang.search.proposal_kernel import Program, ProgramBuilder
from schedlang.search.proposals import Proposals
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload
from tests.search.made_up import enter, timed


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def programs(workload: Workload, count: int) -> list[Program]:
    """Different draws, with their features."""
    builder = ProgramBuilder(ORDINARY, Proposals(workload), Stopwatch())
    drawn = {one.key: one for one in builder.draw(range(4 * count)) if one is not None}
    assert len(drawn) >= count
    return list(drawn.values())[:count]


def rows(program: Program) -> float:
    """A latency that the features tell."""
    assert program.features is not None
    return 1.0 + float(program.features.sum())


def model_of(workload: Workload, known: list[Program]) -> tuple[ProgramModel, Proposals]:
    proposals, stopwatch = Proposals(workload), Stopwatch()
    builder = ProgramBuilder(ORDINARY, proposals, stopwatch)
    model = ProgramModel(proposals, builder, GradientBoosting(), stopwatch)
    for program in known:
        enter(proposals, program.schedule, rows(program))
        id = proposals.id_of(program.key)
        assert id is not None
        model.note(id, program)
    return model, proposals


def test_it_compares_programs_once_it_has_learned(workload: Workload) -> None:
    found = programs(workload, 40)
    few, _ = model_of(workload, found[:11])
    assert few.compared == 1 and few.fastest(found[:3]) == 0
    model, _ = model_of(workload, found[:30])
    assert model.compared > 1
    others = sorted(found[30:], key=rows, reverse=True)
    assert model.fastest(others) > 0
    assert rows(others[model.fastest(others)]) < rows(others[0])
    without = Program(others[-1].schedule)
    assert model.fastest([without, others[-1]]) == 1, "nothing is known of it"


def test_the_estimate_of_the_target_ranks_until_it_has_learned(workload: Workload) -> None:
    found = programs(workload, 40)
    order = {one.schedule.mod: number for number, one in enumerate(reversed(found))}

    def estimate(mod: object) -> float:
        return float(order[mod])

    new, _ = model_of(workload, found[:11])
    new.estimate = estimate
    assert new.compared > 1 and new.fastest(found[:4]) == 3
    new.estimate = lambda mod: math.inf  # of programs that nobody can judge the first
    assert new.fastest(found[:4]) == 0
    taught, _ = model_of(workload, found[:30])
    assert taught.compared > 1
    plain = taught.fastest(found[30:])
    taught.estimate = estimate
    assert taught.fastest(found[30:]) == plain


def test_starts_are_the_most_promising_of_a_few_draws(workload: Workload) -> None:
    def extents(mod: object) -> float:
        return float(len(str(mod)))

    def starts(strategy: CoordinateDescent) -> float:
        asked = strategy.ask(8)[1:]  # the first is the origin
        return sum(extents(one.schedule.mod) for one in asked) / len(asked)

    plain = CoordinateDescent(ORDINARY, workload, pending=8)
    ranked = CoordinateDescent(ORDINARY, workload, pending=8)
    ranked.use_estimate(extents)
    assert starts(ranked) < starts(plain)


def test_it_learns_the_same_from_traces_as_from_programs(workload: Workload) -> None:
    """A search that was loaded has no programs."""
    found = programs(workload, 30)
    model, _ = model_of(workload, found[:20])
    loaded, proposals = model_of(workload, [])
    for program in found[:20]:
        enter(proposals, program.schedule, rows(program))
    assert loaded.compared == model.compared > 1
    tables = [program.features for program in found[20:] if program.features is not None]
    scores = model.cost_model.predict(tables)
    assert loaded.cost_model.predict(tables) == pytest.approx(scores, abs=0)


def taught() -> GradientBoosting:
    """A model that has learned from another workload."""
    other = matmul(16, 16, 16)
    model = GradientBoosting()
    model.update(
        [
            Example(one.features, rows(one), other.key)
            for one in programs(other, 24)
            if one.features is not None
        ]
    )
    return model


@pytest.mark.slow
@pytest.mark.parametrize("told", [0, 4, 40])
def test_what_it_was_taught_before_is_loaded_too(workload: Workload, told: int) -> None:
    search = CoordinateDescent(ORDINARY, workload, 0, cost_model=taught(), lines=2)
    untaught = CoordinateDescent(ORDINARY, workload, 0, lines=2)

    def go_on(one: CoordinateDescent, count: int) -> list[str]:
        asked: list[str] = []
        while len(asked) < count:
            made = one.ask(4)
            asked += [proposal.program_key for proposal in made]
            one.tell([_outcome(proposal.id, proposal.program_key) for proposal in made])
        return asked

    before = go_on(search, told), go_on(untaught, told)
    state = search.save()
    loaded = CoordinateDescent(ORDINARY, workload, 0, lines=2)
    loaded.load(state)
    assert loaded.cost_model.trained
    assert go_on(search, 24) == go_on(loaded, 24)
    if told >= 40:
        assert before[0] != before[1], "the model made no difference"
    assert json.loads(untaught.save())["state"]["cost_model"] is None


def _outcome(id: int, program_key: str) -> Outcome:
    """A latency that depends on the program alone."""
    return timed(id, 1.0 + int(program_key[:6], 16) / 0xFFFFFF)
