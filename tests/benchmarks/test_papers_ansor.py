"""The figures of Ansor and MetaSchedule, with few programs and few trials."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from paper_rows import ansor_partial, metaschedule_modules
from paper_rows.figure import Settings
from paper_rows.metaschedule_spaces import Step, cpu_steps, cuda_steps, dot_steps
from paper_rows.simulated import path_of, units
from searches import SPACES, recorded

import schedlang as sl

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


def test_each_space_has_the_modules_of_the_one_before_it() -> None:
    target = sl.Target("cpu")
    cpu = [step.space for step in cpu_steps(target).values()]
    dot = [step.space for step in dot_steps(target).values()]
    cuda = [step.space for step in cuda_steps(sl.Target("cuda/sm_90")).values()]
    assert [one.name for one in cpu[-1]] == [one.name for one in sl.default_space(target)]
    for spaces in (cpu[:-1], dot, cuda):
        names = [[module.name for module in space] for space in spaces]
        for before, after in itertools.pairwise(names):
            assert len(after) == len(before) + 1
            assert [name for name in after if name in before] == before


def test_spaces_are_tuned_their_winners_timed_and_cuda_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def two_steps(target: sl.Target) -> Mapping[str, Step]:
        steps = cpu_steps(target)
        return {name: steps[name] for name in ("finish", "vector math")}

    monkeypatch.setattr(metaschedule_modules, "PARTS", {"float32": two_steps})
    monkeypatch.setattr(metaschedule_modules, "_QUICK", (64, 16, 256))
    monkeypatch.setattr(metaschedule_modules, "_QUICK_TRIALS", 3)
    monkeypatch.setattr(metaschedule_modules, "_ROUNDS", 3)
    monkeypatch.setattr(metaschedule_modules, "_EMULATED", (16, 16, 16))
    settings = settings_in(tmp_path, quick=True)
    wanted = metaschedule_modules.units(settings)
    assert [unit["step"] for unit in wanted[:3]] == ["finish", "vector math", "finals"]
    rows = [
        {"unit": unit} | metaschedule_modules.job(unit, settings)
        for unit in wanted
        if unit["step"] not in ("bind", "tensor core")
    ]
    assert rows[1]["trials"] == 3 and "vector_math" in rows[1]["modules"]
    latency = metaschedule_modules.latencies(rows, "float32")
    assert latency.keys() == {"finish", "vector math"} and min(latency.values()) > 0
    assert rows[-1]["verified"] == rows[-1]["samples"] == 1
    metaschedule_modules.show(rows)
    assert "+ thread_tiling" in capsys.readouterr().out
    metaschedule_modules.draw(rows, tmp_path / "modules.png")
    assert (tmp_path / "modules.png").stat().st_size > 10_000
