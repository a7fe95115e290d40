"""Droplet Search's figures, on tiny spaces."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from paper_rows import (
    FIGURES,
    droplet_confidence,
    droplet_maps,
    droplet_models,
    droplet_parallel,
)
from paper_rows.descent import least_rise, local_minima, neighbours
from paper_rows.figure import Settings, database_of
from searches import SPACES, recorded

import schedlang as sl
from schedlang.lab.recording import line_of

NRM = SPACES / "epyc-zen3-2-cores" / "NRM.space"


def settings_in(folder: Path, spaces: list[Path] | None = None) -> Settings:
    return Settings(True, seeds=1, spaces=spaces or [], processes=1, folder=folder)


def test_the_expectation_is_the_chain_that_rises_least() -> None:
    """The way around the ridge of 5 rises once, from 2 to 3."""
    costs = {
        (0, 0): 2.0,
        (0, 8): 5.0,
        (0, 16): 4.0,
        (8, 0): 3.0,
        (8, 8): 5.0,
        (8, 16): 1.5,
        (16, 0): 2.5,
        (16, 8): 2.0,
        (16, 16): 1.0,
    }
    assert sorted(neighbours(costs, (0, 0))) == [(0, 8), (8, 0)]
    assert sorted(neighbours(costs, (8, 8))) == [(0, 8), (8, 0), (8, 16), (16, 8)]
    assert least_rise(costs) == pytest.approx(0.5)
    assert local_minima(costs) == 2
    # Lower the gap: each step of one chain descends, by 5% at least.
    assert least_rise(costs | {(8, 0): 1.9, (16, 0): 1.5, (16, 8): 1.35}) == pytest.approx(-0.05)
    failed = {point: cost for point, cost in costs.items() if point not in {(8, 16), (16, 8)}}
    assert least_rise(failed) == math.inf
    assert least_rise(costs | {(0, 0): 0.5}) == -1


@pytest.mark.slow
def test_the_descent_goes_down_each_model_to_its_optimum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure, settings = FIGURES["droplet-models"], settings_in(tmp_path)
    rows = [{"unit": unit} | figure.job(unit, settings) for unit in figure.units(settings)]
    assert [row["unit"]["model"] for row in rows] == [*droplet_models.MODELS]
    for row in rows:
        assert row["path"][0] == [1, 1] and row["path"][-1] == row["optimum"]
        assert row["over optimum"] == 1.0 and row["least rise"] < 0
        values = row["values"][0]
        costs = [row["costs"][values.index(h)][values.index(w)] for h, w in row["path"]]
        assert costs == sorted(costs, reverse=True) and min(costs) == min(map(min, row["costs"]))
        assert len(row["path"]) <= row["trials"] < len(values) ** 2
    figure.show(rows)
    assert capsys.readouterr().out.count("holds") == 8
    assert figure.draw is not None
    figure.draw(rows, tmp_path / "models.png")
    assert (tmp_path / "models.png").stat().st_size > 10_000


def test_a_descent_ends_sooner_the_surer_it_must_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a level of almost 0 no neighbour is faster, so the descent ends at the origin."""
    monkeypatch.setattr(droplet_confidence, "LEVELS", {"0.05": 0.05, "sure": 1e-30, "none": 0.5})
    figure, settings = FIGURES["droplet-confidence"], settings_in(tmp_path, [NRM])
    (unit,) = figure.units(settings)
    row = {"unit": unit} | figure.job(unit, settings)
    for samples in ("3 samples", "all samples"):
        sure, usual, none = (row[f"{samples}, {level}"] for level in ("sure", "0.05", "none"))
        assert sure["trials"] < usual["trials"] <= none["trials"]
        assert sure["latency"] >= usual["latency"] >= none["latency"] >= recorded(NRM).optimum
    figure.show([row])
    assert "3 samples: trials / trials at 0.05" in capsys.readouterr().out


def test_few_samples_are_three_of_the_recorded_ones() -> None:
    found = recorded(NRM)
    sch = found.space.sample(found.workload, seed=0)
    with droplet_confidence.FewSamples(found, seed=0) as measurer:
        measurer.bind(found.workload)
        (one,) = measurer.measure([sl.Candidate.of(sch, 0)])
    assert len(one.samples) == 3 < len(found.program(sch.program_key).samples)
    assert set(one.samples) <= set(found.program(sch.program_key).samples)


@pytest.mark.slow
def test_all_programs_of_a_plane_are_measured_and_tile_as_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(droplet_maps, "matmul", lambda: sl.workloads.matmul(20, 20, 20))
    monkeypatch.setattr(droplet_maps, "KERNELS", {"matmul": droplet_maps.matmul})
    monkeypatch.setattr(droplet_maps, "_QUICK_ORDERS", {"matmul": ("kij",)})
    monkeypatch.setattr(droplet_maps, "_QUICK_SIZES", (0, 17, 8))
    figure, settings = FIGURES["droplet-maps"], settings_in(tmp_path)
    (unit,) = figure.units(settings)
    found = droplet_maps.surveyed(unit, settings)
    costs = droplet_maps.latencies(found)
    assert sorted(costs) == [(i, j) for i in (0, 8, 16) for j in (0, 8, 16)]
    # Outside the tiles of i and j, then k, then inside them; 0 is one tile of all 20 iterations.
    ways = {way.decisions: way for way in found.ways}
    trace = sl.Trace(line_of(found.ways, ways[8, 0]), found.workload)
    sch = trace.replay()
    loops = sch.get_loops(sch.get_block("C_update"))
    assert [sch.extent(loop) for loop in loops] == [3, 1, 20, 8, 20]
    row = {"unit": unit} | figure.job(unit, settings)  # measures nothing again
    assert row["costs"][1][0] == costs[8, 0]
    assert row["path"][0] == [0, 0] and len(row["path"]) <= row["trials"] <= 9
    figure.show([row])
    assert "matmul kij" in capsys.readouterr().out
    assert figure.draw is not None
    figure.draw([row], tmp_path / "maps.png")
    assert (tmp_path / "maps.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_versions_of_a_descent_differ_in_what_they_have_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(droplet_parallel, "_QUICK_MOST", 6)
    figure, settings = FIGURES["droplet-parallel"], settings_in(tmp_path)
    (unit,) = figure.units(settings)
    row = {"unit": unit} | figure.job(unit, settings)
    assert row["serial"]["pending"] == row["serial"]["workers"] == 1
    assert row["speculation"]["pending"] > row["parallel"]["pending"] >= 1
    for name in droplet_parallel.VERSIONS:
        assert row[name]["trials"] == 6 and row[name]["seconds"] > 0
        assert len(row[name]["samples"]) == 3
        assert database_of(unit | {"version": name}, settings).exists()
    assert [*row["p"]] == ["serial, parallel", "serial, speculation", "parallel, speculation"]
    assert droplet_parallel.p_value((1.0, 1.1, 1.2), (1.0, 1.1, 1.2)) == pytest.approx(1.0)
    assert droplet_parallel.p_value((1.0, 1.1, 1.2), (2.0, 2.1, 2.2)) < 0.001
    figure.show([row])
    assert "geometric mean" in capsys.readouterr().out
    assert figure.draw is not None
    figure.draw([row], tmp_path / "parallel.png")
    assert (tmp_path / "parallel.png").stat().st_size > 10_000
