"""A search of a small space ends when it has proposed all of its programs, and says so."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.search import Random
from schedlang.search.base import MOST_WAYS, Completeness, Enumerator
from schedlang.search.searches import SEARCHES
from schedlang.spaces.module import module
from schedlang.spaces.space import Space
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.testing.strategy import finish

MOST_RUNS = 500


def counted(programs: int) -> tuple[Space, list[int]]:
    """A space of that many programs, and a list with an entry for each of its runs."""
    runs: list[int] = []

    @module
    def annotate(sch: Schedule, block: BlockRV) -> None:
        runs.append(1)
        outer, *_ = sch.get_loops(block)
        sch.annotate(outer, "n", sch.sample_categorical(list(range(programs)), name="n"))

    return Space([annotate]), runs


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_ends_with_all_six_programs(name: str) -> None:
    space, runs = counted(6)
    strategy = SEARCHES[name](space, small_workload(), 0)
    assert len(finish(strategy)) == 6
    assert strategy.finished is not None
    assert strategy.finished.endswith("all 6 programs proposed")
    assert len(runs) < MOST_RUNS
    again = SEARCHES[name](space, small_workload(), 0)
    again.load(strategy.save())
    assert again.finished == strategy.finished and again.ask(4) == []


def test_a_run_of_tune_says_it() -> None:
    space, _ = counted(6)
    result = sl.tune(small_workload(), space=space, search="random", trials=40)
    assert result.finished == "all 6 programs proposed"
    assert len(result.records) == 6


def test_a_larger_space_is_drawn_from_as_before() -> None:
    space, _ = counted(MOST_WAYS + 1)
    strategy = Random(space, small_workload(), 0, give_up_after=100)
    finish(strategy)
    assert strategy.finished is not None
    assert strategy.finished.startswith("no new program in 100 draws")


def test_an_unknown_program_is_waited_for() -> None:
    space, runs = counted(6)
    workload = small_workload()
    keys: set[str] = set()

    def run(decider: Enumerator) -> str:
        return space.run(workload, decider).program_key

    completeness = Completeness(run)
    assert not completeness.reached(keys.__contains__)
    assert not completeness.reached(keys.__contains__) and len(runs) == 1
    for number in range(5):
        keys.add(space.sample(workload, decisions={"n": number}).program_key)
    assert not completeness.reached(keys.__contains__)
    keys.add(space.sample(workload, decisions={"n": 5}).program_key)
    assert completeness.reached(keys.__contains__)
    assert len(runs) == 12


def test_a_large_space_is_left_at_its_first_unknown_program() -> None:
    runs: list[int] = []
    workload = small_workload()

    def run(decider: Enumerator) -> str:
        runs.append(1)
        return ORDINARY.run(workload, decider).program_key

    completeness = Completeness(run)
    assert not completeness.reached(lambda key: False) and len(runs) == 1
    assert not completeness.reached(lambda key: True) and len(runs) == MOST_WAYS
