"""The papers' figures, with few programs explored and few trials."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import papers
import pytest
from paper_rows import FIGURES, storm
from paper_rows.figure import Kept, Settings
from paper_rows.simulated import path_of, ratios, tuned, units
from searches import SPACES, recorded

NRM = SPACES / "epyc-zen3-2-cores" / "NRM.space"


def settings_in(folder: Path, quick: bool = False) -> Settings:
    return Settings(quick, seeds=1, spaces=[NRM], processes=1, folder=folder)


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
    assert kept["made_with"]["cores"] and "Storm" in kept["figure"]
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
    # Another commit's rows are not ours.
    path.write_text(json.dumps(kept | {"made_with": kept["made_with"] | {"commit": "other"}}))
    assert Kept(watched, settings_in(tmp_path, quick=True)).rows == []


def test_an_unknown_figure_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["papers.py", "storm-budget"])
    with pytest.raises(SystemExit):
        papers.main()
    assert "no figure storm-budget; there are storm-budgets, storm-exploiters" in (
        capsys.readouterr().err
    )
