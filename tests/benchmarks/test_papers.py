"""The papers' figures, with few programs explored and few trials."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import papers
import pytest
from paper_rows import FIGURES, forks, keyed, layers, storm, storm_measured
from paper_rows.figure import Kept, Settings, database_of
from paper_rows.sides import Side, descent_after, raced, total
from paper_rows.simulated import path_of, ratios, tuned, units
from searches import SPACES, recorded

import schedlang as sl

NRM = SPACES / "epyc-zen3-2-cores" / "NRM.space"


def settings_in(folder: Path, quick: bool = False) -> Settings:
    return Settings(quick, seeds=1, spaces=[NRM], processes=1, folder=folder)


@pytest.mark.slow
def test_one_descent_follows_what_was_explored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm, "MOST", 40)
    monkeypatch.setattr(storm, "EXPLORED", (4, 12))
    settings = settings_in(tmp_path)
    (unit,) = units(settings)
    row = storm.budgets(unit, settings)
    assert [*row] == ["alone", "4", "12"]
    assert row["alone"]["trials"] == 40
    for explored in (4, 12):
        found = row[str(explored)]
        assert explored < found["trials"] <= 40
        assert found["over optimum"] == pytest.approx(found["latency"] / recorded(NRM).optimum)
        assert found["over optimum"] >= 1 and found["seconds"] > 0
    assert ratios([row, row], "alone", "alone", "latency") == 1.0


def test_all_exploiters_follow_the_same_exploration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm, "BEFORE", 6)
    monkeypatch.setattr(storm, "EXPLOITED", 10)
    settings = settings_in(tmp_path)
    (unit,) = units(settings)
    row = storm.exploiters(unit | {"seed": 1}, settings)
    assert [*row] == ["descent", *storm.EXPLOITERS]
    explored = tuned(path_of(unit, settings), 1, "evolutionary", 6)["latency"]
    assert all(found["latency"] <= explored for found in row.values())
    assert all(row[name]["trials"] == 16 for name in storm.EXPLOITERS)
    assert 6 < row["descent"]["trials"] <= 16


def test_a_figure_has_a_table_a_file_and_a_picture_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(storm, "MOST", 30)
    monkeypatch.setattr(storm, "_QUICK", (4, 12))
    command = ["papers.py", "storm-budgets", "--quick", "--spaces", str(NRM), "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", [*command, "--processes", "1", "--folder", str(tmp_path)])
    papers.main()
    printed = capsys.readouterr().out
    assert "latency after 10,000 trials" in printed and "geometric mean" in printed
    assert (tmp_path / "papers_storm-budgets_quick.png").stat().st_size > 10_000
    path = tmp_path / "papers_storm-budgets_quick.json"
    kept = json.loads(path.read_text())
    assert [row["unit"]["seed"] for row in kept["rows"]] == [0, 1]
    assert kept["made_with"]["cores"] and "Storm" in kept["figure"] and kept["rows"][0]["commit"]
    # Interrupted: only what is missing is made again.
    made: list[int] = []
    job = FIGURES["storm-budgets"].job
    watched = replace(
        FIGURES["storm-budgets"],
        job=lambda unit, settings: made.append(unit["seed"]) or job(unit, settings),
    )
    path.write_text(json.dumps(kept | {"rows": kept["rows"][:1]}))
    papers.make(watched, replace(settings_in(tmp_path, quick=True), seeds=2))
    assert made == [1]
    # Another machine's rows are not ours.
    path.write_text(json.dumps(kept | {"made_with": kept["made_with"] | {"target": "other"}}))
    assert Kept(watched, settings_in(tmp_path, quick=True)).rows == []


def test_an_unknown_figure_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["papers.py", "storm-budget"])
    with pytest.raises(SystemExit):
        papers.main()
    assert "no figure storm-budget; there are storm-budgets, " in (capsys.readouterr().err)


@pytest.mark.slow
def test_sides_tune_the_same_layer_and_a_second_call_takes_what_the_first_measured(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path, quick=True)
    workload = sl.workloads.get("GMM", n=16, m=32, k=16)
    sides = {"descent": Side(descent_after(2), 4), "model": Side("evolutionary", 5)}
    unit = {"network": "small", "layer": 0}
    found = raced(workload, sides, unit, settings)
    assert [*found] == ["descent", "model"]
    assert found["descent"]["trials"] <= 4 and found["model"]["trials"] == 5
    for one in found.values():
        assert one["latency"] > 0 and one["seconds"] > 0
        curve = [*one["curve"].values()]
        assert curve == sorted(curve, reverse=True) and str(one["trials"]) in one["curve"]
    before = sl.Database(database_of(unit | {"side": "model"}, settings)).count()
    again = raced(workload, sides, unit, settings)
    assert again["model"]["curve"] == found["model"]["curve"]
    assert sl.Database(database_of(unit | {"side": "model"}, settings)).count() == before


def test_a_networks_time_counts_a_layer_as_often_as_it_occurs(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    every = layers.units(("resnet-18", "alexnet"), settings)
    rows = [
        {"unit": unit, "sides": {"auto": {"latency": 1e-3, "seconds": 2.0, "trials": 8}}}
        for unit in every
        if unit["network"] == "resnet-18"
    ]
    # ResNet-18 has 17 convolutions with 3 x 3 and 7 x 7 filters, and 3 with 1 x 1.
    assert total(rows, "auto", "latency") == pytest.approx(20e-3)
    assert total(rows, "auto", "seconds") == 2.0 * len(rows)
    first = layers.workload_of(every[0])
    assert "224, 224" in first.mod.script() and len(every) == 16


@pytest.mark.slow
def test_measured_budgets_are_set_beside_exploring_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(storm_measured, "_QUICK_MOST", 3)
    monkeypatch.setattr(storm_measured, "_QUICK_EXPLORED", (1, 2))
    monkeypatch.setattr(storm_measured, "_OPERATORS", ("SFM",))
    settings = settings_in(tmp_path, quick=True)
    (unit,) = storm_measured.units(settings)
    row = {"unit": unit} | storm_measured.budgets(unit, settings)
    assert [*row["sides"]] == ["1", "2", "alone"] and row["sides"]["alone"]["trials"] == 3
    for explored in (1, 2):
        assert explored <= row["sides"][str(explored)]["trials"] <= explored + 3
    row["sides"]["alone"]["latency"] = 3 * row["sides"]["2"]["latency"]
    storm_measured.show([row])
    assert capsys.readouterr().out.splitlines()[3].split()[-1] == "3.000"


@pytest.mark.slow
def test_modules_at_work_are_left_out_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(forks, "_QUICK_TRIALS", 2)
    monkeypatch.setattr(forks, "_OPERATORS", ("SFM",))
    monkeypatch.setattr(forks, "modules_at_work", lambda *_: ["vector_math"])
    settings = settings_in(tmp_path, quick=True)
    (unit,) = forks.operators(settings)
    row = {"unit": unit} | forks.forks(unit, settings)
    without = row["sides"].pop("vector_math")
    row["sides"]["vector_math"] = without | {"latency": 7 * row["sides"][forks.WHOLE]["latency"]}
    forks.show_forks([row])
    assert "vector_math      7.00" in capsys.readouterr().out


def test_a_module_is_at_work_where_it_records_instructions() -> None:
    space = sl.default_space("cpu")
    softmax = forks.modules_at_work(space, sl.workloads.get("SFM"))
    product = forks.modules_at_work(space, sl.workloads.get("GMM"))
    assert "vector_math" in softmax and "vector_math" not in product
    assert "parallel_vectorize_unroll" in softmax and "multi_level_tiling" in product


def test_more_patience_takes_more_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "PATIENCE", (1, 40))
    settings = settings_in(tmp_path)
    (unit,) = units(settings)
    row = forks.patience(unit, settings)
    assert row["1"]["trials"] < row["40"]["trials"]
    assert row["1"]["over optimum"] >= row["40"]["over optimum"] >= 1


@pytest.mark.slow
def test_keys_are_equal_by_the_papers_rules_and_a_winner_is_replayed(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, quick=True)
    keys, product = keyed.units(settings)
    found = keyed.measured(keys, settings)["found"]
    assert {name: found[name] for name in keyed.EQUAL} == {
        name: [exact, True] for name, (_, exact) in keyed.EQUAL.items()
    }
    assert not any(exact for name in keyed.OTHER for exact in found[name][:1])
    row = keyed.measured(product, settings)
    assert 0 < row["take"] < row["tune"]
