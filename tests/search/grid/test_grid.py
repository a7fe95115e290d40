"""Grid search: the contract of every search, and the order and completeness of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import schedlang as sl
from schedlang.distributions import Categorical, Distribution, IntRange
from schedlang.search.base import Enumerator, spaced
from schedlang.search.searches import Grid
from schedlang.testing.spaces import (
    FRAGILE,
    HOPELESS,
    ORDINARY,
    TINY,
    TINY_PROGRAMS,
    small_workload,
)
from schedlang.testing.strategy import MakeStrategy, StrategyContract, finish
from schedlang.workloads.workload import Workload

PAIR = Categorical((0, 1))


class TestGrid(StrategyContract):
    seeded = False

    @pytest.fixture
    def make_strategy(self) -> MakeStrategy:
        return Grid


class TestCoarseGrid(StrategyContract):
    seeded = False

    @pytest.fixture
    def make_strategy(self) -> MakeStrategy:
        return lambda space, workload, seed: Grid(space, workload, seed, points=2)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


@sl.module
def two_sketches(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """The second draw is from 0..first."""
    if sch.choose("noted", (True, False)):
        first = sch.sample_categorical([0, 1, 2], name="first")
        sch.annotate(block, "first", first)
        allowed = list(range(int(first) + 1))
        sch.annotate(block, "second", sch.sample_categorical(allowed, name="second"))


@sl.module
def undoes(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Applies nowhere, which shows after two choices."""
    sch.choose("kind", ("a", "b", "c"))
    sch.choose("way", (True, False))
    raise sl.NotApplicable("never")


def enumerate_runs(program: Callable[[Enumerator], Any], points: int | None = None) -> list[Any]:
    """What each run of a program gives."""
    enumerator = Enumerator(points)
    results = [program(enumerator)]
    while enumerator.advance():
        results.append(program(enumerator))
    return results


# -- order and completeness --------------------------------------------------------------------


def test_every_program_once_in_order_and_supports_may_depend(workload: Workload) -> None:
    strategy = Grid(sl.Space([two_sketches]), workload)
    proposals = finish(strategy, n=3)
    drawn = [tuple(proposal.trace.decisions.values()) for proposal in proposals]
    # Decisions are positions in the list; the sketch without draws comes second.
    assert drawn == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), ()]
    assert strategy.finished == "all 7 programs proposed"
    assert not strategy.rejections


def test_a_tiny_space_is_enumerated(workload: Workload) -> None:
    strategy = Grid(TINY, workload)
    assert len(finish(strategy)) == TINY_PROGRAMS
    assert strategy.finished == "all 4 programs proposed"
    assert Counter(r.reason for r in strategy.rejections) == {"duplicate": TINY_PROGRAMS}


def test_invalid_programs_are_rejections(workload: Workload) -> None:
    strategy = Grid(FRAGILE, workload)
    assert len(finish(strategy)) == 5
    assert Counter(r.reason for r in strategy.rejections) == {"instruction": 10}
    strategy = Grid(HOPELESS, workload)
    assert strategy.ask(9) == []
    assert strategy.finished == "no valid program in all 2 there are"


def test_choices_that_were_rolled_back_are_not_multiplied(workload: Workload) -> None:
    """Six ways to undo the choices; what follows them is run once, and once more for each way."""
    space = sl.Space([undoes, two_sketches])
    strategy = Grid(space, workload)
    assert len(finish(strategy)) == 7
    assert Counter(r.reason for r in strategy.rejections) == {"duplicate": 5}


# -- the enumerator ------------------------------------------------------------------------------


def test_only_what_was_rolled_back_is_skipped() -> None:
    """Where the first choice takes 1 nothing is undone; 0 and 2 are."""

    def program(decider: Enumerator) -> Any:
        before = decider.decide("before", PAIR)
        first = decider.choose("first", Categorical((0, 1, 2)), "xyz")
        if first != 1:
            decider.undone(1)
            return before, "undone", decider.decide("after", PAIR)
        return before, first, decider.decide("after", PAIR)

    runs = Counter(enumerate_runs(program))
    assert set(runs) == {(b, k, a) for b in (0, 1) for k in ("undone", 1) for a in (0, 1)}
    # With 2 the run that finds out about the rollback is a repetition, the rest is skipped.
    assert [run for run, count in runs.items() if count > 1] == [(b, "undone", 0) for b in (0, 1)]


@pytest.mark.parametrize(
    ("distribution", "points", "values"),
    [
        (IntRange(0, 10), None, list(range(10))),
        (IntRange(0, 10), 1, [0]),
        (IntRange(0, 10), 2, [0, 9]),
        (IntRange(0, 10), 4, [0, 3, 6, 9]),
        (IntRange(0, 3), 4, [0, 1, 2]),
        (IntRange(0, 10**12), 3, [0, 49_999, 99_999]),
    ],
)
def test_points_are_evenly_spaced(
    distribution: Distribution, points: int | None, values: list[int]
) -> None:
    assert list(spaced(distribution, points)) == values


def test_choices_keep_all_options_however_coarse_the_grid() -> None:
    def program(decider: Enumerator) -> Any:
        return decider.choose("a", Categorical((0, 1, 2)), "xyz"), decider.decide("b", PAIR)

    assert enumerate_runs(program, points=1) == [(0, 0), (1, 0), (2, 0)]


def test_a_stored_enumerator_goes_on_where_it_was() -> None:
    def program(decider: Enumerator) -> Any:
        a = decider.decide("a", Categorical((0, 1, 2)))
        return (a, *(decider.decide("b", IntRange(0, 2)) for _ in range(a)))

    everything = enumerate_runs(program)
    for done in range(1, len(everything)):
        enumerator = Enumerator(None)
        for _ in range(done):
            program(enumerator)
            enumerator.advance()
        stored = json.loads(json.dumps(enumerator.save()))
        enumerator = Enumerator(None)
        enumerator.load(stored, partial(program, enumerator))
        assert enumerator.save() == stored
        rest = [program(enumerator)]
        while enumerator.advance():
            rest.append(program(enumerator))
        assert rest == everything[done:]


def test_a_large_space_costs_a_run_a_proposal(workload: Workload) -> None:
    """Lazily: nothing is listed ahead."""
    strategy = Grid(ORDINARY, workload)
    assert len(strategy.ask(5)) == 5 and strategy.finished is None


def test_wrong_points_are_refused(workload: Workload) -> None:
    with pytest.raises(ValueError, match="points=0"):
        Grid(ORDINARY, workload, points=0)
