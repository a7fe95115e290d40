"""Coordinate descent: the contract of every search, and what Droplet Search promises."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence

import pytest

from schedlang.language.schedule import Trace
from schedlang.measurement import Measurement, Status
from schedlang.search import ExploreExploit, Outcome, Proposal
from schedlang.search.coordinate_descent import CoordinateDescent
from schedlang.search.coordinate_models import (
    Step,
    origin,
    steps_from,
    steps_onward,
    take,
)
from schedlang.testing.spaces import ORDINARY, TINY, TINY_PROGRAMS, small_workload
from schedlang.testing.strategy import MakeStrategy, StrategyContract, finish, made_up_outcome
from schedlang.tvm.program import structural_key
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload
from tests.search import measured_tiles
from tests.search.analytic_models import MODELS, OTHER_READINGS, SIDES, TILES, Cost, positive
from tests.search.made_up import timed
from tests.search.measured_tiles import TWO_TILES, name_of

Latency = Callable[[Trace], float]
ALL_MODELS = {**MODELS, **OTHER_READINGS}


class TestCoordinateDescent(StrategyContract):
    rounds = 14  # its models learn from the 12th outcome on

    @pytest.fixture
    def make_strategy(self) -> MakeStrategy:
        return CoordinateDescent


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def one_line(workload: Workload, start: Trace | None = None) -> CoordinateDescent:
    """That proposes a whole neighbourhood at once."""
    return CoordinateDescent(TILES, workload, start=start, lines=1, pending=8, restarts=0)


def at(workload: Workload, h: int, w: int) -> Trace:
    return TILES.sample(workload, decisions={"h": h, "w": w}).trace


def descend(
    strategy: CoordinateDescent, latency: Latency, n: int = 8, noise: float = 0.0
) -> list[Proposal]:
    """Ask and tell until it is finished."""
    proposals: list[Proposal] = []
    while strategy.finished is None:
        asked = strategy.ask(n)
        proposals += asked
        strategy.tell([timed(p.id, latency(p.trace), noise) for p in asked])
    return proposals


def of_tile(cost: Cost) -> Latency:
    return lambda trace: cost(trace.decisions["h"], trace.decisions["w"])


def tiles_of(proposals: Sequence[Proposal]) -> list[tuple[int, int]]:
    return [(d["h"], d["w"]) for d in (proposal.trace.decisions for proposal in proposals)]


# -- the analytic models of the paper's Figure 15 ---------------------------------------------


def optimum(cost: Cost) -> tuple[int, int]:
    """By exhaustive evaluation."""
    return min(itertools.product(SIDES, SIDES), key=lambda tile: cost(*tile))


@pytest.mark.slow
@pytest.mark.parametrize("cost", ALL_MODELS.values(), ids=ALL_MODELS)
def test_it_reaches_the_optimum_of_each_analytic_model(cost: Cost, workload: Workload) -> None:
    cost = positive(cost)
    strategy = one_line(workload)
    proposals = descend(strategy, of_tile(cost))
    assert tiles_of(proposals)[0] == (1, 1)
    assert min(tiles_of(proposals), key=lambda tile: cost(*tile)) == optimum(cost)
    assert len(proposals) < len(SIDES) ** 2 / 2
    assert strategy.finished is not None and strategy.finished.startswith(
        "1 line search converged; best "
    )
    assert strategy.finished.endswith(f"s after {len(proposals)} measurements")


@pytest.mark.slow
@pytest.mark.parametrize("cost", ALL_MODELS.values(), ids=ALL_MODELS)
def test_with_noise_it_comes_near_the_optimum(cost: Cost, workload: Workload) -> None:
    """Within 2 %: last steps gain less (0.03 % in TSS) than noise of 0.2 % lets a t-test see.

    The noise is seeded by the proposals, so that the test gives the same each time.
    """
    cost = positive(cost)
    strategy = one_line(workload)
    proposals = descend(strategy, of_tile(cost), noise=0.002)
    assert min(cost(*tile) for tile in tiles_of(proposals)) < 1.02 * cost(*optimum(cost))


# -- a small space of real programs -----------------------------------------------------------


def modelled_latency(trace: Trace) -> float:
    """Loads of operands, results that no longer stay near, and vectors of 8, filled or not."""
    rows, columns = trace.decisions["tile i"][1], trace.decisions["tile j"][1]
    outside = trace.choices["order"] == "reduction outside"
    vectors = -(-columns // 8) * 8 / columns if outside else 4.0
    return 1 / rows + 1 / columns + rows * columns / 512 + vectors / 4


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_what_exhaustive_search_finds_with_exact_latencies(seed: int) -> None:
    workload = matmul(64, 64, 64)
    latencies = {t: modelled_latency(t) for t in measured_tiles.all_traces(workload)}
    assert len(latencies) == 7 * 7 * 2
    strategy = CoordinateDescent(TWO_TILES, workload, seed, restarts=0)
    proposals = descend(strategy, modelled_latency)
    assert min(modelled_latency(p.trace) for p in proposals) == min(latencies.values())
    assert len(proposals) < len(latencies)


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_what_exhaustive_search_finds(seed: int) -> None:
    """With the samples that a machine took, noise and all, before half of the 98 are measured.

    Found is what is within 2% of the fastest: two programs are. With 8 seeds that were tried it
    took 5 to 35 measurements; independent draws take 33 on average.
    """
    samples = measured_tiles.measured()
    assert len(samples) == 7 * 7 * 2 == len(set(map(name_of, measured_tiles.all_traces())))
    strategy = CoordinateDescent(TWO_TILES, measured_tiles.WORKLOAD, seed)
    best, count = math.inf, 0
    while count < len(samples) // 2:
        asked = strategy.ask(8)
        found = [samples[name_of(proposal.trace)] for proposal in asked]
        best = min(best, *map(statistics.median, found))
        count += len(asked)
        strategy.tell(
            [
                Outcome(p.id, Measurement(p.id, Status.OK, one))
                for p, one in zip(asked, found, strict=True)
            ]
        )
    assert best <= 1.02 * min(map(statistics.median, samples.values()))


# -- neighbours ---------------------------------------------------------------------------------


def test_large_batches_wait_for_more_outcomes(workload: Workload) -> None:
    """A quarter of what is asked for, but 4 at least, and half of many; or what the user says."""

    def asked(n: int, pending: int | None = None) -> int:
        strategy = CoordinateDescent(ORDINARY, workload, pending=pending)
        for _ in range(4):  # lines have to be under way
            strategy.tell([timed(p.id, 1e-5 + p.id * 1e-7) for p in strategy.ask(4)])
        return len(strategy.ask(n))

    assert [asked(n) for n in (2, 16, 24, 40)] == [2, 4, 6, 20]
    assert asked(40, pending=6) == 6


@pytest.mark.parametrize("explores", [False, True])
def test_small_batches_after_large_ones_keep_as_many_busy(
    workload: Workload, explores: bool
) -> None:
    """A run asks for fewer when its time ends: that is no reason for builders to wait."""
    strategy = (
        ExploreExploit(ORDINARY, workload, switch_after=40)
        if explores
        else CoordinateDescent(ORDINARY, workload, lines=16)
    )
    for n in (40, 8, 8):
        proposals = strategy.ask(n)
        strategy.tell([timed(p.id, 1e-5 + p.id * 1e-7) for p in proposals])
    assert len(strategy.ask(8)) == 8


def test_a_neighbour_differs_in_one_coordinate(workload: Workload) -> None:
    here = ORDINARY.sample(workload, seed=0).trace
    sites = here.decisions.keys() | here.choices.keys()
    steps = steps_from(here)
    assert {step.site for step in steps} == sites
    for step in steps:
        there = take(ORDINARY, here, (step,)).trace
        assert there != here
        if step.site in here.choices:
            shared = here.decisions.keys() & there.decisions.keys() - {"where"}
            assert all(here.decisions[s] == there.decisions[s] for s in shared)
        else:
            changed = {s for s in sites if here.decisions.get(s) != there.decisions.get(s)}
            assert step.site in changed <= {step.site, "where"}


def test_the_origin_of_a_space_takes_every_distributions_origin(workload: Workload) -> None:
    trace = origin(ORDINARY, workload).trace
    for site, distribution in trace.distributions.items():
        assert trace.decisions[site] == distribution.origin()


def test_a_step_goes_on_in_the_direction_of_the_last(workload: Workload) -> None:
    here = TILES.sample(workload, decisions={"h": 11, "w": 1}).trace
    assert steps_onward(here, "h", 6, 11) == [Step("h", 16)]
    assert steps_onward(here, "h", 11, 6) == [Step("h", 1)]
    assert steps_onward(here, "h", 6, 1) == []
    tiled = TWO_TILES.sample(workload, decisions={"tile i": (8, 4), "tile j": (32, 1)}).trace
    assert steps_onward(tiled, "tile i", (16, 2), (8, 4)) == [Step("tile i", (4, 8))]
    assert steps_onward(tiled, "tile i", (4, 8), (8, 4)) == [Step("tile i", (16, 2))]
    assert steps_onward(tiled, "tile i", (16, 2), (8, 5)) == []
    assert steps_onward(tiled, "gone", 1, 2) == []


# -- how it searches ----------------------------------------------------------------------------


def far_sides(trace: Trace) -> float:
    """Falls to the corner that is farthest from the origin."""
    return float(300 - trace.decisions["h"] - trace.decisions["w"])


def test_it_moves_on_before_the_neighbourhood_is_known(workload: Workload) -> None:
    strategy = one_line(workload, at(workload, 51, 51))
    (start,) = strategy.ask(8)
    strategy.tell([timed(start.id, far_sides(start.trace))])
    around = strategy.ask(8)
    assert sorted(tiles_of(around)) == [(46, 51), (51, 46), (51, 56), (56, 51)]
    (faster,) = [p for p in around if p.trace.decisions["h"] == 56]
    strategy.tell([timed(faster.id, far_sides(faster.trace))])
    assert strategy.ask(1)[0].trace.decisions == {"h": 61, "w": 51}
    late = [p for p in around if p is not faster]
    strategy.tell([timed(p.id, 1.0 if p.trace.decisions["w"] == 46 else 400.0) for p in late])
    assert all(w < 46 or h != 51 for h, w in tiles_of(strategy.ask(2))), "a late one is better yet"


def test_speculation_fills_the_batch_in_the_direction_of_the_last_step(workload: Workload) -> None:
    """3.4: the neighbourhood of the point ahead, once the own one is proposed."""
    strategy = one_line(workload, at(workload, 51, 51))
    strategy.tell([timed(p.id, 100.0) for p in strategy.ask(1)])
    around = strategy.ask(4)
    strategy.tell([timed(p.id, 50.0 if p.trace.decisions["h"] == 56 else 200.0) for p in around])
    asked = tiles_of(strategy.ask(8))
    assert sorted(asked[:3]) == [(56, 46), (56, 56), (61, 51)]
    assert asked[3:] == [(66, 51), (61, 46), (61, 56)]


def test_it_speculates_only_while_it_waits(workload: Workload) -> None:
    strategy = one_line(workload, at(workload, 51, 51))
    for n in (1, 4, 3):
        asked = strategy.ask(n)
        assert len(asked) == n
        best = (56, 51)
        strategy.tell([timed(p.id, 1.0 if tiles_of([p]) == [best] else 2.0) for p in asked])
    assert strategy.ask(8) == []
    assert strategy.finished == "1 line search converged; best 1 s after 8 measurements"


def test_the_number_of_pending_proposals_is_limited(workload: Workload) -> None:
    strategy = CoordinateDescent(ORDINARY, workload, pending=3)
    first = strategy.ask(32)
    assert len(first) == 3 and strategy.ask(32) == []
    strategy.tell([timed(first[1].id, 1.0)])
    assert len(strategy.ask(32)) == 1


def test_steps_that_gained_are_taken_together(workload: Workload) -> None:
    strategy = one_line(workload, at(workload, 51, 51))
    strategy.tell([timed(p.id, far_sides(p.trace)) for p in strategy.ask(1)])
    strategy.tell([timed(p.id, far_sides(p.trace)) for p in strategy.ask(4)])
    assert (56, 56) in tiles_of(strategy.ask(2))


def test_a_difference_that_is_not_significant_is_no_reason_to_move(workload: Workload) -> None:
    strategy = one_line(workload, at(workload, 51, 51))
    samples = {(51, 51): (1.0, 1.1, 0.9), (56, 51): (0.99, 1.08, 0.91)}
    proposals = []
    while strategy.finished is None:
        asked = strategy.ask(8)
        proposals += asked
        for p in asked:
            drawn = samples.get(tiles_of([p])[0], (2.0, 2.1, 1.9))
            strategy.tell([Outcome(p.id, Measurement(p.id, Status.OK, drawn))])
    assert len(proposals) == 5
    assert strategy.finished == "1 line search converged; best 990 ms after 5 measurements"


def test_failed_neighbours_and_few_samples_are_no_obstacle(workload: Workload) -> None:
    """What the measurer gives up early has two samples."""
    strategy = one_line(workload)
    proposals: list[Proposal] = []
    while strategy.finished is None:
        asked = strategy.ask(8)
        proposals += asked
        for p in asked:
            h, w = p.trace.decisions.values()
            if h > w:
                failed = Measurement(p.id, Status.CRASHED, message="made up")
                strategy.tell([Outcome(p.id, failed)])
            else:
                strategy.tell([timed(p.id, far_sides(p.trace), 1e-4, samples=2 + h % 3)])
    assert (96, 96) in tiles_of(proposals)


def test_several_lines_share_a_batch_and_end_where_they_meet(workload: Workload) -> None:
    starts = [at(workload, 1, 1), at(workload, 96, 1), at(workload, 41, 51)]
    strategy = CoordinateDescent(TILES, workload, lines=3, pending=8, restarts=0, start=starts)
    asked = strategy.ask(8)
    assert tiles_of(asked) == [(1, 1), (96, 1), (41, 51)]
    strategy.tell([timed(p.id, far_sides(p.trace)) for p in asked])
    around = tiles_of(strategy.ask(6))
    assert sum(abs(h - 41) + abs(w - 51) <= 5 for h, w in around) == 4
    assert len(around) == 6, "the best line has four neighbours; others fill the batch"


def test_restarts_are_new_lines_from_the_prior(workload: Workload) -> None:
    def flat(trace: Trace) -> float:
        return 1.0

    strategy = CoordinateDescent(TILES, workload, lines=1, restarts=3)
    assert strategy.report == ""
    descend(strategy, flat)
    assert strategy.finished is not None and strategy.finished.startswith(
        "4 line searches converged"
    )
    assert strategy.report == "4 have converged"


def test_what_it_does_is_said_in_words(workload: Workload) -> None:
    strategy = CoordinateDescent(TILES, workload, lines=2, restarts=0)
    asked = strategy.ask(2)
    strategy.tell([timed(p.id, far_sides(p.trace)) for p in asked])
    assert strategy.report == "improving 2 programs; none has converged yet"


def test_without_a_limit_of_restarts_it_ends_with_the_space(workload: Workload) -> None:
    strategy = CoordinateDescent(TINY, workload)
    assert len(finish(strategy)) == TINY_PROGRAMS


def test_a_start_that_fails_is_replaced(workload: Workload) -> None:
    strategy = one_line(workload)
    for _ in range(3):
        asked = strategy.ask(8)
        assert len(asked) == 1
        failed = Measurement(asked[0].id, Status.RUN_TIMEOUT, message="made up")
        strategy.tell([Outcome(asked[0].id, failed)])
    assert strategy.finished is None


def test_equal_programs_are_measured_once(workload: Workload) -> None:
    proposals = descend(CoordinateDescent(ORDINARY, workload, restarts=2), lambda trace: 1.0)
    keys = [structural_key(proposal.schedule.mod) for proposal in proposals]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "wrong", [{"lines": 0}, {"pending": 0}, {"restarts": -1}, {"significance": 0}], ids=str
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, int], workload: Workload) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}={next(iter(wrong.values()))}"):
        CoordinateDescent(TILES, workload, **wrong)  # type: ignore[arg-type]


def test_what_the_model_skips_is_counted(workload: Workload) -> None:
    """Starts near the fastest are the best of many, once the model has learned; a loss is left."""
    strategy = CoordinateDescent(ORDINARY, workload, lines=2, most_loss=0.0)
    assert strategy.screened == 0
    for _ in range(16):
        strategy.tell([made_up_outcome(proposal) for proposal in strategy.ask(8)])
    assert strategy.screened > 0
    other = CoordinateDescent(ORDINARY, workload, lines=2, most_loss=0.0)
    other.load(strategy.save())
    assert other.screened == strategy.screened
