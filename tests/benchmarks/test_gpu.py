"""The GPU's benchmark without a GPU: rows run dry, figures are saved after each, time ends it."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import gpu as benchmark
import pytest
from gpu_rows import metaschedule, rows
from gpu_rows.bench import Bench
from gpu_rows.dry import DryMeasurer
from gpu_rows.workloads import fused_dense, layer_norm

import schedlang as sl
from schedlang.measurement import Status
from schedlang.targets.cuda import nvcc


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    # nvcc takes seconds a program, and other tests call it.
    monkeypatch.setattr(nvcc, "find", lambda: None)
    monkeypatch.setenv("TVM_COMPILE_FORCE_FALLBACK", "1")  # restored at the end
    return Bench(sl.Target("cuda", arch="sm_90a"), trials=2, seed=0, dry=True)


def test_a_space_is_tuned_and_its_best_program_timed_again(bench: Bench) -> None:
    workload = sl.workloads.matmul(64, 64, 64)
    with bench.measuring(workload) as measurer:
        tuned = bench.tune(workload, measurer)
        times = bench.finals(measurer, {"schedlang": [tuned.program], "nobody": []})
    assert tuned.figures()["trials"] == 2 and not tuned.failures
    assert times["schedlang"] == pytest.approx(tuned.latency) and times["nobody"] is None


def test_figures_are_saved_after_each_row(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results" / "gpu.json"
    seen: list[Any] = []

    def first(_: Bench) -> dict[str, Any]:
        return {"x": 1}

    def second(_: Bench) -> dict[str, Any]:
        seen.append(json.loads(file.read_text())["rows"])
        raise RuntimeError("the GPU is gone")

    monkeypatch.setattr(benchmark, "ROWS", {"first": first, "second": second})
    document = benchmark.run(bench, ["first", "second"], math.inf, file)
    assert seen[0]["first"]["x"] == 1
    assert "the GPU is gone" in document["rows"]["second"]["error"]
    # A later run of one row keeps the others.
    monkeypatch.setattr(benchmark, "ROWS", {"second": first})
    benchmark.run(bench, ["second"], math.inf, file)
    saved = json.loads(file.read_text())
    assert saved["rows"]["first"]["x"] == saved["rows"]["second"]["x"] == 1
    assert saved["device"] == "none (dry run)"


def test_no_row_begins_when_time_is_over(bench: Bench) -> None:
    assert benchmark.run(bench, ["peaks"], 10.0, None)["rows"] == {}
    assert bench.end == math.inf


def test_a_dry_measurement_builds_and_checks_limits(bench: Bench) -> None:
    from tests.targets.cuda.gpu_programs import bound_matmul

    workload = sl.workloads.matmul(64, 64, 64)
    measurer = DryMeasurer(bench.target)
    good, large = bound_matmul(workload, 64), bound_matmul(workload, 2048)
    found = list(measurer.measure([sl.Candidate(0, good), sl.Candidate(1, large)]))
    assert [one.status for one in found] == [Status.OK, Status.REJECTED]


def test_the_row_of_wgmma_compares_both_ways(bench: Bench) -> None:
    figures = rows.wgmma(bench, 128)
    assert set(figures["latency"]) == {"wgmma", "mma.sync", "cublas"}
    for name in ("wgmma", "mma.sync"):
        assert figures["searches"][name]["trials"] == 2
        assert figures["latency"][name] and not figures["searches"][name]["failures"]
    assert figures["mma.sync over wgmma"] and figures["cublas over wgmma"] is None
    other = Bench(sl.Target("cuda", arch="sm_80"), trials=2, seed=0, dry=True)
    assert rows.wgmma(other) == {"left out": "only sm_90a has wgmma, and the target is sm_80"}


def test_metaschedule_may_remove_what_it_built(bench: Bench, tmp_path: Path) -> None:
    """Its tuning removes the folder of each program after it ran."""
    from tvm.s_tir.meta_schedule.builder import BuilderInput
    from tvm.s_tir.meta_schedule.runner import RunnerInput
    from tvm.s_tir.meta_schedule.utils import remove_build_dir

    from tests.targets.cuda.gpu_programs import bound_matmul

    workload = sl.workloads.matmul(64, 64, 64)
    found, measurer = metaschedule.Found(), DryMeasurer(bench.target)
    builder, runner = metaschedule._adapters(measurer, found, tmp_path)
    given = BuilderInput(bound_matmul(workload, 64), bench.target.tvm_target())
    built = builder.build([given, given])
    for one in built:
        [future] = runner.run([RunnerInput(one.artifact_path, "cuda", [])])
        assert future.done() and future.result().run_secs
        remove_build_dir(one.artifact_path)
    assert found.trials == 2 and not list(tmp_path.iterdir())
    measurer.deadline = time.monotonic() - 1
    with pytest.raises(RuntimeError, match="_OutOfTime"):
        builder.build([given])


def test_workloads_of_the_rows() -> None:
    dense = fused_dense(64, 32, 48)
    assert [arg.dtype for arg in dense.args] == ["float16"] * 4
    assert [arg.shape for arg in layer_norm(8, 16).args] == [(8, 16), (16,), (16,), (8, 16)]
    assert {"peaks", "gemm-1024", "gemm-4096", "wgmma", "ablation", "memory", "convolution"} <= set(
        benchmark.ROWS
    )
    assert len(rows.STANDARD) == 13
