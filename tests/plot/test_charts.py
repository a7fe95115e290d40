"""Charts: each is valid, takes what it says, and says what it does not take."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

import pytest

import schedlang as sl
from schedlang.database.history import REJECTIONS, TIME_LINE, RunHistory
from schedlang.measurement import Status
from schedlang.plot.finals import bests_chart
from schedlang.plot.sources import histories_of, names_of
from schedlang.plot.style import inline
from schedlang.plot.timeline import COLORS
from schedlang.printed import Unit, significant
from schedlang.report.chart_views import importance_view
from schedlang.report.facts import Context
from tests.report.synthetic import make_history

HISTORY = make_history(60)
EMPTY = RunHistory(HISTORY.run, "matmul", [])
CHARTS = ("convergence", "timeline", "importance", "decisions", "rejections", "finals")


def rows_of(chart: Any) -> list[list[dict[str, Any]]]:
    """The datasets of a chart; that it is valid is checked on the way."""
    return list(chart.to_dict(validate=True)["datasets"].values())


@pytest.mark.parametrize("name", CHARTS)
def test_each_chart_is_valid(name: str) -> None:
    assert rows_of(getattr(sl.plot, name)(HISTORY))


def test_convergence_shows_each_trial_and_each_gain() -> None:
    for over in ("trials", "seconds"):
        data = rows_of(sl.plot.convergence(HISTORY, over=over))
        [trials] = [rows for rows in data if "status" in rows[0]]
        [steps] = [rows for rows in data if "gain" in rows[0]]
        measured = [row for row in trials if row["latency"] is not None]
        assert len(trials) == sum(one.status != "rejected" for one in HISTORY.records)
        best = min(row["latency"] for row in measured)
        assert steps[-1]["latency"] == best and steps[-1]["trial"] == len(trials)
        assert all(row["low"] <= row["latency"] <= row["high"] for row in steps)


def test_several_runs_are_named() -> None:
    other = make_history(40, 1, search="tree")
    [steps] = rows_of(sl.plot.convergence([HISTORY, other]))
    assert {row["run"] for row in steps} == {"evolutionary", "tree"}
    [steps] = rows_of(sl.plot.convergence({"a": HISTORY, "b": other}))
    assert {row["run"] for row in steps} == {"a", "b"}
    assert len({row["run"] for row in rows_of(sl.plot.importance([HISTORY, other]))[0]}) == 2


def seeds(count: int = 5, trials: int = 40) -> list[RunHistory]:
    return [make_history(trials, seed) for seed in range(count)]


@pytest.mark.parametrize("over", ["trials", "seconds"])
def test_seeds_of_a_kernel_are_a_median_and_a_band(over: str) -> None:
    """At each step, the median, the least and the largest of what the runs have by then."""
    runs, others = seeds(), seeds(3, 20)
    chart = sl.plot.convergence({"tree": runs, "one": others[0], "random": others}, over=over)
    [steps] = rows_of(chart)
    assert {row["run"] for row in steps} == {"tree", "one", "random"}
    of_tree = [row for row in steps if row["run"] == "tree"]
    place = "trial" if over == "trials" else "seconds"
    for row in of_tree:
        best = []
        for run in runs:
            there = [
                one
                for one in run.rows
                if one.latency is not None
                and (one.number if over == "trials" else significant(one.seconds)) <= row[place]
            ]
            best.append(min(one.latency for one in there if one.latency is not None))
        scale = of_tree[-1]["low"] / min(
            one.latency for run in runs for one in run.rows if one.latency is not None
        )
        assert row["latency"] == pytest.approx(statistics.median(best) * scale, rel=1e-4)
        assert row["low"] == pytest.approx(min(best) * scale, rel=1e-4)
        assert row["high"] == pytest.approx(max(best) * scale, rel=1e-4)
    assert [row[place] for row in of_tree] == sorted(row[place] for row in of_tree)
    medians = [row["latency"] for row in of_tree]
    assert medians == sorted(medians, reverse=True) and len(set(medians)) > 2
    assert any(row["low"] < row["latency"] < row["high"] for row in of_tree)
    own = [row for row in steps if row["run"] == "one"]
    assert all(row["low"] == row["latency"] == row["high"] for row in own)


def test_a_run_that_ended_keeps_its_best() -> None:
    short, long = make_history(10, 0), make_history(60, 1)
    [steps] = rows_of(sl.plot.convergence({"a": [short, long]}))
    last = max(one.number for one in long.rows if one.number is not None)
    assert steps[-1]["trial"] == last and steps[-1]["runs"] == 2
    [legend] = {str(one) for one in colors_of(sl.plot.convergence({"a": [short, long]}))}
    assert "'a'" in legend, "a curve alone is named too"


def colors_of(chart: Any) -> list[Any]:
    return [layer["encoding"]["color"]["scale"]["domain"] for layer in chart.to_dict()["layer"]]


def test_seeds_are_of_one_kernel_and_each_has_a_latency() -> None:
    other = dataclasses.replace(HISTORY.run, workload_key="f" * 16)
    mixed = [HISTORY, dataclasses.replace(HISTORY, run=other, name="conv")]
    with pytest.raises(ValueError, match="'a' has runs of 2 kernels: matmul, conv"):
        sl.plot.convergence({"a": mixed})
    with pytest.raises(ValueError, match="a: no candidate of seed 0 has a latency"):
        sl.plot.convergence({"a": [HISTORY, EMPTY]})
    with pytest.raises(ValueError, match="no run is given"):
        sl.plot.convergence({"a": []})
    with pytest.raises(TypeError, match="not int"):
        sl.plot.convergence({"a": [HISTORY, 3]})
    with pytest.raises(ValueError, match="two curves have the same name"):
        sl.plot.convergence({1: [HISTORY], "1": [HISTORY]})


def test_names_tell_runs_apart() -> None:
    seeds = [make_history(3, seed) for seed in (0, 1)]
    assert names_of(seeds) == ["evolutionary, seed 0", "evolutionary, seed 1"]
    assert len(set(names_of([seeds[0], seeds[0], seeds[1]]))) == 3


def test_decisions_can_be_chosen() -> None:
    chart = sl.plot.decisions(HISTORY, x="panel:C:i[0]", y="unroll")
    spec = chart.to_dict()
    titles = {layer["encoding"]["x"]["title"] for layer in spec["layer"]}
    assert titles == {"panel:C:i[0]"}
    assert "unroll" in str(sl.plot.decisions(HISTORY, y="unroll").to_dict()["layer"])
    with pytest.raises(ValueError, match="no decision 'nope'; there are: register_tile:C"):
        sl.plot.decisions(HISTORY, x="nope", y="unroll")


def test_more_rows_than_altair_takes_by_default() -> None:
    record = HISTORY.records[0]
    records = [dataclasses.replace(record, id=n) for n in range(6000)]
    many = RunHistory(HISTORY.run, "matmul", records)
    assert max(map(len, rows_of(sl.plot.convergence(many)))) == 6000


@pytest.mark.parametrize(
    "name", ["convergence", "timeline", "importance", "decisions", "rejections", "finals"]
)
def test_a_run_without_the_data_says_why(name: str) -> None:
    with pytest.raises(ValueError, match=r"^matmul: \w"):
        getattr(sl.plot, name)(EMPTY)
    lacking = dataclasses.replace(EMPTY, lacks={TIME_LINE: "it is old", REJECTIONS: "it is old"})
    if name in ("timeline", "rejections"):
        with pytest.raises(ValueError, match="matmul: it is old"):
            getattr(sl.plot, name)(lacking)


@pytest.mark.parametrize("name", ["convergence", "decisions"])
def test_a_run_in_which_all_failed_says_so(name: str) -> None:
    failed = [
        dataclasses.replace(one, status=Status.RUN_ERROR, samples=(), verified=False)
        for one in HISTORY.records
    ]
    history = dataclasses.replace(HISTORY, records=failed)
    with pytest.raises(ValueError, match="matmul: no candidate has a latency"):
        getattr(sl.plot, name)(history)
    # A run without a latency may stand beside others.
    rows_of(sl.plot.convergence({"failed": history, "other": HISTORY}))


@pytest.mark.parametrize("name", ["timeline", "decisions", "rejections", "finals"])
def test_charts_of_one_run_refuse_several(name: str) -> None:
    with pytest.raises(ValueError, match="one run, not 2"):
        getattr(sl.plot, name)([HISTORY, HISTORY])


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(TypeError, match=r"not str; of a file give schedlang.database.history\('a'"):
        sl.plot.convergence("a")
    with pytest.raises(TypeError, match="not int"):
        sl.plot.convergence([HISTORY, 3])
    with pytest.raises(ValueError, match="no run is given"):
        histories_of([])
    with pytest.raises(ValueError, match="two runs have the same name as text"):
        sl.plot.convergence({1: HISTORY, "1": HISTORY})
    for sites in (0, -1, "all"):
        with pytest.raises(ValueError, match=f"sites={sites!r}; give a whole number"):
            sl.plot.importance(HISTORY, sites=sites)
    with pytest.raises(ValueError, match="over='days'"):
        sl.plot.convergence(HISTORY, over="days")
    with pytest.raises(AttributeError, match="has no attribute 'plots'"):
        _ = sl.plots


def test_only_what_is_there_is_in_the_legend() -> None:
    measured = [one for one in HISTORY.records if one.ok]
    assert len(measured) < len(HISTORY.records)
    for history, kinds in (
        (dataclasses.replace(HISTORY, records=measured), ["best so far", "trial"]),
        (HISTORY, ["best so far", "trial", "failed trial"]),
    ):
        layer = sl.plot.convergence(history).to_dict()["layer"][0]
        assert layer["encoding"]["color"]["scale"]["domain"] == kinds


def test_an_outlier_does_not_stretch_the_axis_of_best_programs() -> None:
    samples = {"a": [1e-3 + k * 1e-6 for k in range(30)] + [1.0], "b": [1.1e-3] * 30}
    scale = bests_chart(samples, Unit("ms", 1e3), inline).to_dict()["layer"][0]["encoding"]["x"]
    low, high = scale["scale"]["domain"]
    assert low < 1 and 1.1 < high < 1.2 and scale["scale"]["clamp"]


def test_an_outlier_does_not_stretch_the_axis_of_the_finals() -> None:
    first, second, *others = HISTORY.finals
    assert first.ok and second.ok
    part = len(second.samples) // 5
    slow = (*second.samples[:-part], *(9 * sample for sample in second.samples[-part:]))
    disturbed = dataclasses.replace(
        HISTORY, finals=[first, dataclasses.replace(second, samples=slow), *others]
    )
    layers = [
        next(layer for layer in made["layer"] if "scale" in layer["encoding"].get("x", {}))
        for made in (sl.plot.finals(one).to_dict() for one in (HISTORY, disturbed))
    ]
    before, after = (layer["encoding"]["x"]["scale"] for layer in layers)
    assert after["clamp"] and after["domain"][1] < 2 * before["domain"][1] < 4


def test_the_time_line_begins_with_the_run() -> None:
    made = sl.plot.timeline(HISTORY).to_dict()
    above, below = made["vconcat"]
    begin, end = above["encoding"]["x"]["scale"]["domain"]
    assert begin == 0 and end > 0
    window = next(one for one in made["params"] if one["name"] == "window")
    assert window["value"]["x"][0] == 0
    # Whole numbers have no zeros behind them: 0, 0.5, 1.
    assert {part["encoding"]["x"]["axis"]["format"] for part in (above, below)} == {",.3~f"}


def test_a_lane_shows_when_other_work_disturbed_samples() -> None:
    made = sl.plot.timeline(make_history(60, busy=True)).to_dict()
    above, lane, _ = made["vconcat"]
    scale = lane["encoding"]["x"]["scale"]
    assert scale == above["encoding"]["x"]["scale"]
    rows = made["datasets"][lane["data"]["name"]]
    assert any(row["share"] > 0.5 for row in rows)
    begin, end = 0.2 * scale["domain"][1], 0.8 * scale["domain"][1]
    assert all(begin < row["begin"] < end for row in rows if row["share"] > 0)


def test_uncertain_trials_have_a_colour_where_there_are_any() -> None:
    for history, shown in ((HISTORY, False), (make_history(60, busy=True), True)):
        layers = sl.plot.convergence(history).to_dict()["layer"]
        kinds = layers[0]["encoding"]["color"]["scale"]["domain"]
        assert ("uncertain trial" in kinds) == shown and "trial" in kinds


def test_idle_time_is_quiet_on_white_and_on_black() -> None:
    opacity = float(COLORS["idle"].rstrip(")").rpartition(",")[2])
    assert COLORS["idle"].startswith("rgba(") and opacity < 0.4


def test_a_decision_is_counted_where_it_has_a_row() -> None:
    context = Context(HISTORY)
    rows = [one for one in context.weights if one.importance is not None]
    context.weights.append(dataclasses.replace(rows[0], importance=None, tried=1))
    finding = importance_view(context).finding
    assert f" of {len(rows)} decisions explain" in finding
    others = len(context.weights) - len(rows)
    assert f"{others} other" in finding and "not varied" in finding
