"""The parts of the race that need no measurement: curves, the plan of runs, figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from _race import Run, Trial
from _race_figures import DEFAULT, PEER, figures
from _race_plot import median_curve
from search_race import Race, as_racers, plan

TRIALS = (2, 4)


def run_of(*latencies: float | None, winner: int | None = None) -> Run:
    """A run with a trial each second, whose programs are their numbers; it ends 5 s later."""
    trials = [
        Trial(float(n + 1), latency, "ok" if latency else "crashed", lambda n=n: n)
        for n, latency in enumerate(latencies)
    ]
    return Run(trials, len(trials) + 5.0, winner)


def test_a_curve_falls_and_reaches_the_end_of_the_run() -> None:
    run = run_of(None, 3.0, 4.0, 2.0, 2.5)
    assert run.curve() == [(2, 2.0, 3.0), (4, 4.0, 2.0), (5, 10.0, 2.0)]
    assert run.failures() == {"crashed": 1}


def test_a_run_in_which_nothing_works_has_no_curve() -> None:
    run = run_of(None, None)
    assert run.curve() == []
    assert run.fastest(2) == []


def test_finalists_are_the_winner_and_then_the_fastest_of_those_trials() -> None:
    run = run_of(5.0, 1.0, None, 2.0, 3.0, 4.0, winner=5)
    assert run.fastest(6) == [5, 1, 3]
    assert run.fastest(4) == [1, 3, 0]


def test_a_run_that_is_over_took_all_its_time() -> None:
    run = run_of(1.0, 1.0, 1.0)
    assert run.seconds_after(2) == 2.0
    assert run.seconds_after(3) == run.seconds_after(9) == 8.0


def test_the_main_figures_are_measured_first() -> None:
    searches = ["random", PEER, "grid", DEFAULT]
    first = [(DEFAULT, 2), (DEFAULT, 4), (PEER, 4)]
    assert plan(searches, TRIALS) == [*first, ("random", 4), ("grid", 4)]
    assert plan(["random"], TRIALS) == [("random", 4)]
    assert plan(["explore_exploit"], TRIALS) == [("explore_exploit", 2), ("explore_exploit", 4)]


def test_unknown_searches_are_named_with_the_known_ones() -> None:
    with pytest.raises(SystemExit, match="no search raisin; known: auto, random"):
        as_racers(["random", "raisin"])


def row(search: str, trials: int, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "GMM",
        "search": search,
        "seed": 0,
        "trials": trials,
        "measured": trials,
        "seconds_after": {str(trials): 10.0 * trials},
        "seconds": 10.0 * trials,
        "split": {"search": 3.0, "model": 1.0},
        "error": "",
        "curve": [[1, 1.0, 1.0]],
        **changes,
    }


def final(workload: str, seed: int, **latency: dict[str, float]) -> dict[str, Any]:
    return {"workload": workload, "seed": seed, "latency": latency, "failures": {}}


def test_figures_are_geometric_means_of_medians_over_seeds() -> None:
    rows = [row(DEFAULT, 2), row(DEFAULT, 4), row(PEER, 4, seconds_after={"4": 160.0})]
    finals = [
        final("GMM", 0, auto={"2": 2.0, "4": 1.0}, metaschedule={"4": 2.0}),
        final("GMM", 1, auto={"2": 2.0, "4": 1.0}, metaschedule={"4": 4.0}),
        final("GMM", 2, auto={"2": 2.0, "4": 1.0}, metaschedule={"4": 9.0}),
        final("SFM", 0, auto={"2": 1.0, "4": 4.0}, metaschedule={"4": 4.0}),
    ]
    found = figures([DEFAULT, PEER], TRIALS, rows, finals)
    assert found["quality_64_vs_256"] == pytest.approx((2.0 * 4.0) ** 0.5)
    assert found["quality_256_vs_256"] == pytest.approx((4.0 * 1.0) ** 0.5)
    assert found["worst_256"] == 1.0
    assert found["time_ratio"] == pytest.approx(160.0 / 20.0)
    assert found["by_search"][DEFAULT]["search_share"] == pytest.approx(4.0 / 40.0)
    assert found["notes"] == []


def test_searches_are_compared_with_the_default_on_their_own_workloads() -> None:
    finals = [
        final("GMM", 0, auto={"4": 1.0}, random={"4": 2.0}, metaschedule={"4": 3.0}),
        final("SFM", 0, auto={"4": 1.0}, metaschedule={"4": 100.0}),
    ]
    found = figures([DEFAULT, PEER, "random"], TRIALS, [], finals)["by_search"]
    assert found["random"]["quality_256_vs_256"] == pytest.approx(1.5)
    assert found["random"]["workloads"] == 1 and found["auto"]["workloads"] == 2
    assert found["random"]["default_there"] == pytest.approx(3.0)
    assert found["auto"]["default_there"] == found["auto"]["quality_256_vs_256"]


def resumed(path: Path, **changes: Any) -> Race:
    """A race that goes on with the file, of GMM with the default and the peer."""
    settings = {"names": ["GMM"], "seeds": [0], "searches": [DEFAULT, PEER], "trials": TRIALS}
    race = Race(**{**settings, **changes}, path=path)
    race.resume()
    return race


def test_a_race_goes_on_with_its_own_file_only(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    race = resumed(path)
    race.rows = [row(DEFAULT, 2), row(DEFAULT, 4), row(PEER, 4), row(DEFAULT, 2, seed=1)]
    race.finals = [final("GMM", 0, auto={"4": 1.0}, metaschedule={"4": 2.0})]
    race.run()  # nothing is left to run: it writes the file
    again = resumed(path)
    assert (again.rows, again.finals) == (race.rows[:3], race.finals)
    assert resumed(path, searches=[DEFAULT]).finals == race.finals
    with pytest.raises(SystemExit, match="has no random for GMM with seed 0"):
        resumed(path, searches=[DEFAULT, PEER, "random"])
    with pytest.raises(SystemExit, match="of other trials or batches"):
        resumed(path, batch=64)


def test_a_workload_without_a_ratio_is_noted() -> None:
    rows = [row(DEFAULT, 4), row(PEER, 4, measured=3, error="ScheduleError: no")]
    finals = [final("GMM", 0, auto={"4": 1.0}, metaschedule={})]
    found = figures([DEFAULT, PEER], TRIALS, rows, finals)
    assert found["quality_256_vs_256"] is None
    assert found["notes"] == [
        "GMM metaschedule seed 0: 3 of 4 trials, ScheduleError: no",
        "GMM metaschedule seed 0: none of its best works",
    ]


def test_the_median_curve_starts_where_half_of_the_runs_have_something() -> None:
    curves = [[(1, 1.0, 6.0), (4, 9.0, 6.0)], [(2, 2.0, 4.0), (4, 9.0, 2.0)], [(3, 3.0, 1.0)]]
    x, y = median_curve(curves, over_time=False)
    assert x == [2.0, 3.0, 4.0]
    assert y == [6.0, 4.0, 2.0]
