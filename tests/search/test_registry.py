"""Which search a name stands for."""

from __future__ import annotations

import pytest

import schedlang as sl
from schedlang.search import (
    SEARCHES,
    CoordinateDescent,
    Evolutionary,
    ExploreExploit,
    Random,
    make_search,
)
from schedlang.search.explore_exploit import SETTINGS
from schedlang.search.strategy import Strategy
from schedlang.search.tasks import make_objective, make_scheduler
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.workloads.workload import Workload


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def made(name: str, workload: Workload, trials: int | None = None) -> Strategy:
    return make_search(name, ORDINARY, workload, 0, trials)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_has_its_own_name(name: str, workload: Workload) -> None:
    assert made(name, workload).name == name


@pytest.mark.parametrize("trials", [1, 64, 256, None])
def test_auto_descends(workload: Workload, trials: int | None) -> None:
    assert type(made("auto", workload, trials)) is CoordinateDescent


@pytest.mark.parametrize(
    ("trials", "explored"),
    [(1, 1), (40, 20), (50, 25), (199, 25), (200, 100), (256, 100), (600, 300), (None, 300)],
)
def test_exploring_leaves_half_of_the_trials_to_the_descent(
    workload: Workload, trials: int | None, explored: int
) -> None:
    assert made("explore_exploit", workload, trials).settings["switch_after"] == explored


@pytest.mark.parametrize(("name", "explored"), SETTINGS.items())
def test_the_settings_of_the_paper_are_names_too(
    workload: Workload, name: str, explored: int
) -> None:
    search = made(name, workload, 64)
    assert type(search) is ExploreExploit
    assert search.settings["switch_after"] == explored


def test_an_unknown_name_is_told_with_the_known_ones(workload: Workload) -> None:
    with pytest.raises(ValueError, match="search='annealing'; known: auto, random, .*dpansor-25"):
        sl.tune(workload, space=ORDINARY, search="annealing")
    with pytest.raises(ValueError, match="no setting 'dpansor-50'; did you mean .* known: dpansor"):
        ExploreExploit.setting("dpansor-50")


def test_a_misspelt_name_is_told_with_the_nearest(workload: Workload) -> None:
    with pytest.raises(ValueError, match="search='evolutionery'; did you mean 'evolutionary'. kn"):
        sl.tune(workload, space=ORDINARY, search="evolutionery")
    with pytest.raises(ValueError, match="objective='latensy'; did you mean 'latency'. known: "):
        make_objective("latensy")
    with pytest.raises(ValueError, match="scheduler='gradent'; did you mean 'gradient'. known: "):
        make_scheduler("gradent")


@pytest.mark.parametrize("make", [Random, Evolutionary])
def test_a_search_that_gives_up_at_once_is_refused(
    make: type[Random] | type[Evolutionary], workload: Workload
) -> None:
    with pytest.raises(ValueError, match="give_up_after=0"):
        make(ORDINARY, workload, 0, give_up_after=0)
