"""The figures of Ansor and MetaSchedule, with few programs and few trials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paper_rows import ansor_partial
from paper_rows.figure import Settings
from paper_rows.simulated import path_of, units
from searches import SPACES, recorded

NRM = SPACES / "epyc-zen3-2-cores" / "NRM.space"


def settings_in(folder: Path, quick: bool = False) -> Settings:
    return Settings(quick, seeds=1, spaces=[NRM], processes=1, folder=folder)


def test_a_model_ranks_complete_programs_and_not_the_unscheduled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ansor_partial, "HELD_OUT", 60)
    monkeypatch.setattr(ansor_partial, "RATES", (0.0, 0.5, 1.0))
    settings = settings_in(tmp_path)
    (unit,) = units(settings)
    row = ansor_partial.partial_programs(unit, settings)
    assert (row["trained on"], row["held out"]) == (780, 60)
    assert row["0.0"]["accuracy"] == 0.5  # all scores are equal
    assert row["0.5"]["accuracy"] < row["1.0"]["accuracy"] > 0.75
    assert row["1.0"]["recall"] > 0.4
    assert all(row[rate]["without features"] == 0 for rate in ("0.0", "0.5", "1.0"))
    rows = [{"unit": unit} | row]
    ansor_partial.show(rows)
    assert "recall of the fastest 10, at completion rate" in capsys.readouterr().out
    ansor_partial.draw(rows, tmp_path / "partial.png")
    assert (tmp_path / "partial.png").stat().st_size > 10_000
    # The last part of a program is the program, and the first part none of it.
    found = recorded(path_of(unit, settings))
    lines = ansor_partial.lines_of(found, [0, 700])
    whole = ansor_partial.features_after(1.0, lines, found.workload)
    for number, table in zip((0, 700), whole, strict=True):
        assert np.array_equal(table, found.space.known_features[found.programs[number].key])
    first, second = ansor_partial.features_after(0.0, lines, found.workload)
    assert np.array_equal(first, second)
