"""The papers' figures on a recorded space, with few programs explored and few trials."""

from __future__ import annotations

import pytest
from paper_rows import storm
from searches import SPACES, recorded

NRM = SPACES / "epyc-zen3-2-cores" / "NRM.space"


def test_one_descent_follows_what_was_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "MOST", 40)
    row = storm.budgets(NRM, seed=0, explored=(4, 12))
    assert [*row] == ["alone", "4", "12"]
    assert row["alone"]["trials"] == 40
    for explored in (4, 12):
        found = row[str(explored)]
        assert explored < found["trials"] <= 40
        assert found["over optimum"] == pytest.approx(found["latency"] / recorded(NRM).optimum)
        assert found["over optimum"] >= 1 and found["seconds"] > 0
    assert storm.ratios([row, row], "alone", "alone", "latency") == 1.0


def test_all_exploiters_follow_the_same_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "BEFORE", 6)
    monkeypatch.setattr(storm, "EXPLOITED", 10)
    row = storm.exploiters(NRM, seed=1)
    assert [*row] == ["descent", *storm.EXPLOITERS]
    explored = storm.tuned(NRM, 1, "evolutionary", 6)["latency"]
    assert all(found["latency"] <= explored for found in row.values())
    assert all(row[name]["trials"] == 16 for name in storm.EXPLOITERS)
    assert 6 < row["descent"]["trials"] <= 16
