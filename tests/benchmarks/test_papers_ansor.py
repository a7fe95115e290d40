"""The figures of Ansor and MetaSchedule, with few programs and few trials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from _beam_search import BeamSearch, Partial
from paper_rows import (
    ansor_ablation,
    ansor_networks,
    ansor_operators,
    ansor_partial,
    metaschedule_modules,
)
from paper_rows.figure import Settings
from paper_rows.metaschedule_spaces import Step, cpu_steps, cuda_steps, dot_steps
from paper_rows.simulated import path_of, units
from searches import SPACES, recorded

import schedlang as sl
from schedlang.search.cost_model import Example
from schedlang.search.proposal_kernel import Program, extract_features
from schedlang.search.tasks import TaskProgress

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


def test_a_beam_of_partial_programs_becomes_complete_ones() -> None:
    target = sl.Target("cpu")
    workload = sl.workloads.matmul(32, 32, 32)
    search = BeamSearch(sl.default_space(target), workload, seed=0)
    start = Partial((), Program(sl.Schedule(workload)), complete=False)
    child = search.continued(start)
    assert child is not None and len(child.decisions) == 1 and not child.complete
    drawn = [Program(one.trace.replay()) for one in search.ask(16)]
    extract_features(drawn)
    # The model learns that many rows of features are slow.
    examples = [
        Example(one.features, 1e-6 * len(one.features), workload.key)
        for one in drawn
        if one.features is not None
    ]
    search.model.update(examples)
    kept = search.best_of_pass(4)
    assert len(kept) == 4 and all(one.complete for one in kept)
    scores = search.model.predict([one.program.features for one in kept])
    assert list(scores) == sorted(scores, reverse=True)
    assert scores[0] >= np.mean(search.model.predict([one.features for one in drawn]))
    # A complete program is that of its decisions.
    again = search.continued(Partial(kept[0].decisions, start.program, complete=False))
    assert again is not None and again.program.key == kept[0].program.key


@pytest.mark.slow
def test_the_variants_are_tuned_and_their_medians_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (sketch,) = ansor_ablation.limited_space(sl.Target("cpu")).sketches(sl.workloads.C2D())
    assert dict(sketch.choices) == {"write_cache:conv2d": "none"}
    monkeypatch.setattr(ansor_ablation, "_QUICK_SHAPE", (4, 4, 16, 16, 3, 1, 1))
    monkeypatch.setattr(ansor_ablation, "_QUICK_TRIALS", 18)
    settings = settings_in(tmp_path, quick=True)
    unit = {"variant": "beam search", "seed": 0}
    row = ansor_ablation.job(unit, settings)
    assert row["trials"] == 18 and row["curve"][-1][0] <= 18
    latencies = [latency for _, latency in row["curve"]]
    assert latencies == sorted(latencies, reverse=True)
    assert ansor_ablation.job(unit, settings)["curve"] == row["curve"]  # from its database
    rows = [
        {"unit": {"variant": name, "seed": seed}}
        | row
        | {"curve": [[1, 4e-6], [10 + seed, best * (1 + seed) * 1e-6]]}
        for best, name in enumerate(ansor_ablation.VARIANTS, 1)
        for seed in range(3)
    ]
    trials, throughput = ansor_ablation.curves(rows)["beam search"]
    assert dict(zip(trials, throughput, strict=True))[10] == pytest.approx(1 / 4)
    # 2, 4 and 6 us at the end: the median is a quarter of 1 us.
    assert (trials[-1], throughput[-1]) == (18, pytest.approx(1 / 4))
    monkeypatch.setattr(ansor_ablation, "_SHOWN", (9, 18))
    ansor_ablation.show(rows)
    assert "limited space" in capsys.readouterr().out
    ansor_ablation.draw(rows, tmp_path / "ablation.png")
    assert (tmp_path / "ablation.png").stat().st_size > 10_000


def test_sixteen_operators_are_set_beside_the_other_tuner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = ansor_operators.units(settings_in(tmp_path))
    assert len({one["kernel"] for one in units}) == 16 and len(ansor_operators.kernels()) == 80
    assert units == ansor_operators.units(settings_in(tmp_path))
    side = {"latency": 2e-6, "seconds": 3.0}
    # Faster, within 5%, slower, and where the other one has no program at all.
    others = [4e-6, 1.96e-6, 1e-6, None]
    rows = [
        {"unit": unit, "auto": side, "metaschedule": {"latency": other, "seconds": 30.0}}
        for unit, other in zip(units, others, strict=False)
    ]
    ansor_operators.show(rows)
    told = capsys.readouterr().out
    assert "within 5% of it: 3 of 4" in told and "none" in told and "10.0 of the seconds" in told
    assert "lowest 0.50" in told
    ansor_operators.draw(rows, tmp_path / "operators.png")
    assert (tmp_path / "operators.png").stat().st_size > 5_000


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


@pytest.mark.slow
def test_spaces_are_tuned_their_winners_timed_and_cuda_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def two_steps(target: sl.Target) -> Mapping[str, Step]:
        steps = cpu_steps(target)
        return {name: steps[name] for name in ("finish", "vector math")}

    monkeypatch.setattr(metaschedule_modules, "PARTS", {"float32": two_steps})
    monkeypatch.setattr(metaschedule_modules, "_QUICK", (64, 16, 256))
    monkeypatch.setattr(metaschedule_modules, "_QUICK_TRIALS", 3)
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


def test_curves_of_a_network_start_where_every_task_has_a_latency(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = ansor_networks.Recorded("equal_split", 0)
    fresh, tried = TaskProgress((2,)), TaskProgress((2,), trials=4, latencies=((4, 3.0),))
    assert recorded.next([fresh, tried]) == 0
    assert recorded.next([tried, tried]) == 0
    assert recorded.curve == [(8, 12.0)]
    assert ansor_networks.latency_at([(4, 5.0), (8, 3.0)], 7) == 5.0
    assert ansor_networks.latency_at([(4, 5.0), (8, 3.0)], 3) == math.inf

    def row(variant: str, seed: int, curve: list[tuple[int, float]]) -> Mapping[str, object]:
        unit = {"network": "one", "variant": variant, "seed": seed}
        return {"unit": unit, "curve": curve, "seconds": 3.0}

    rows = [
        row("full", 0, [(8, 4e-3), (40, 2e-3)]),
        row("full", 1, [(8, 6e-3), (40, 2e-3)]),
        row("limited space", 0, [(16, 5e-3), (40, 4e-3)]),
    ]
    found = ansor_networks.by_trials(rows)
    assert found["full"] == [(8, 5e-3), (40, 2e-3)]
    assert found["limited space"] == [(16, 5e-3), (40, 4e-3)]
    ansor_networks.show_curves(rows)
    assert "limited space          2.000" in capsys.readouterr().out
    ansor_networks.draw_curves(rows, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_network_whose_requirement_is_met_gets_no_more_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    small = {
        name: sl.import_network(torch.nn.Linear(64, units), torch.randn(8, 64), name=name)
        for name, units in {"met": 32, "missed": 48}.items()
    }
    monkeypatch.setattr(ansor_networks, "network", small.__getitem__)
    monkeypatch.setattr(ansor_networks, "_QUICK_TOGETHER", tuple(small))
    monkeypatch.setattr(ansor_networks, "_QUICK_TRIALS", 16)
    # Far from what they reach: calls of microseconds may be ten times as long on a loaded machine.
    monkeypatch.setattr(ansor_networks, "_REQUIRED", (1e6, 1e-6))
    settings = settings_in(tmp_path, quick=True)
    units = [{"objective": name} for name in ("latency", "requirements")]
    rows = [{"unit": unit} | ansor_networks.objective(unit, settings) for unit in units]
    assert sum(rows[0]["trials"]) == 16
    met, missed = rows[1]["trials"]
    assert met < missed
    ansor_networks.show_objectives(rows)
    assert "requirements" in capsys.readouterr().out
