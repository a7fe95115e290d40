"""Starts near the fastest programs."""

from __future__ import annotations

import random

import pytest

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurement, Status
from schedlang.measurement.clock import Stopwatch
from schedlang.search import Outcome
from schedlang.search.coordinate_descent import CoordinateDescent, Perturbation
from schedlang.search.coordinate_models import ProgramModel, StepModel
from schedlang.search.gradient_boosting import GradientBoosting
from schedlang.search.proposal_kernel import ProgramBuilder
from schedlang.search.proposals import Proposals
from schedlang.spaces.module import module
from schedlang.spaces.space import Space
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload
from tests.search.analytic_models import TILES
from tests.search.made_up import enter, timed


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def told(workload: Workload, count: int, space: Space) -> Proposals:
    """A proposals of draws, the later ones faster."""
    proposals = Proposals(workload)
    for seed in range(count):
        enter(proposals, space.sample(workload, seed=seed), 1.0 / (1 + seed))
    return proposals


@module
def note_many(sch: Schedule, block: BlockRV) -> None:
    """Twelve draws of ten; every outcome is a program of its own."""
    loop, *_ = sch.get_loops(block)
    for number in range(12):
        site = f"site {number}"
        sch.annotate(loop, site, sch.sample_categorical(list(range(10)), name=site))


def perturbation_of(space: Space, proposals: Proposals) -> Perturbation:
    stopwatch = Stopwatch()
    builder = ProgramBuilder(space, proposals, stopwatch)
    program_model = ProgramModel(proposals, builder, GradientBoosting(), stopwatch)
    return Perturbation(proposals, StepModel(proposals, 0, stopwatch), builder, program_model)


def test_they_are_new_programs_a_few_decisions_from_one_of_the_fastest(workload: Workload) -> None:
    """A fresh draw would differ from each of them at ten sites."""
    space = Space([note_many], "many")
    proposals = told(workload, 12, space)
    perturbation, rng = (
        perturbation_of(space, proposals),
        random.Random(0),
    )
    fastest = [one.trace.decisions for one in proposals.told[-3:]]
    for _ in range(8):
        program = perturbation.next(rng)
        assert program is not None
        assert program.key == structural_key(program.schedule.mod)
        assert proposals.id_of(program.key) is None
        found = program.trace.decisions
        differing = [sum(one[site] != found[site] for site in found) for one in fastest]
        assert 1 <= min(differing) <= 3


def test_what_was_proposed_is_not_wanted_again(workload: Workload) -> None:
    """Of a space of 64 programs all but two are known: both are found."""
    space = Space([note_pair], "pair")
    proposals = Proposals(workload)
    left = {(5, 5), (6, 5)}
    for a in range(8):
        for b in range(8):
            if (a, b) not in left:
                schedule = space.sample(workload, decisions={"a": a, "b": b})
                enter(proposals, schedule, 1.0 + abs(a - 5) + abs(b - 5))
    perturbation, rng = (
        perturbation_of(space, proposals),
        random.Random(0),
    )
    found = set()
    for _ in range(2):
        program = perturbation.next(rng)
        assert program is not None and proposals.admit(program.schedule) is not None
        found.add((program.trace.decisions["a"], program.trace.decisions["b"]))
    assert found == left
    assert perturbation.next(rng) is None
    assert not proposals.rejections


def test_there_is_none_before_anything_was_fast(workload: Workload) -> None:
    proposals = Proposals(workload)
    perturbation = perturbation_of(ORDINARY, proposals)
    assert perturbation.next(random.Random(0)) is None
    proposal = proposals.admit(ORDINARY.sample(workload, seed=0))
    assert proposal is not None
    failed = Measurement(proposal.id, Status.RUN_ERROR, stderr="it failed")
    proposals.settle([Outcome(proposal.id, failed)])
    assert perturbation.next(random.Random(0)) is None


def test_they_are_where_the_model_of_decisions_expects_most(workload: Workload) -> None:
    """Of what is around, it prefers what the outcomes so far say is fast: large ``h`` here."""
    proposals = Proposals(workload)
    for h in (1, 21, 41, 61, 91):
        for w in (1, 21, 41, 61, 91):
            enter(proposals, TILES.sample(workload, decisions={"h": h, "w": w}), 1 / h)
    perturbation, rng = (
        perturbation_of(TILES, proposals),
        random.Random(0),
    )
    found = [perturbation.next(rng) for _ in range(8)]
    assert all(one is not None and one.trace.decisions["h"] >= 61 for one in found)


@module
def note_pair(sch: Schedule, block: BlockRV) -> None:
    """Two draws of eight; every outcome is a program of its own."""
    loop, *_ = sch.get_loops(block)
    for site in ("a", "b"):
        sch.annotate(loop, site, sch.sample_categorical(list(range(8)), name=site))


def test_a_descent_with_them_sees_the_whole_of_a_small_space(workload: Workload) -> None:
    """Latencies differ up to a hundred times, so that some steps are thought hopeless."""
    strategy = CoordinateDescent(Space([note_pair], "pair"), workload, 0)
    seen = set()
    while strategy.finished is None:
        for proposal in strategy.ask(4):
            a, b = (proposal.trace.decisions[site] for site in ("a", "b"))
            seen.add((a, b))
            strategy.tell([timed(proposal.id, 1.0 + (a - 2) ** 2 + (b - 6) ** 2)])
    assert len(seen) == 64
