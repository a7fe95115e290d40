"""Results: each file names a clean commit, and README and docs say what the files say."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import _results
import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
ZEN4, XEON = "epyc-zen4-2-cores", "xeon-avx512-2-cores"

# Made before commits were written, or from changed files. This list may only shrink: a file that is
# made again gets its commit by _results.store.
OLDER = [
    "epyc-zen3-2-cores/busy.json",
    "epyc-zen3-2-cores/low_bit_rows.json",
    "epyc-zen3-2-cores/searches.json",
    "epyc-zen4-2-cores/bring_your_own.json",
    "epyc-zen4-2-cores/busy.json",
    "epyc-zen4-2-cores/busy_gmm_before.json",
    "epyc-zen4-2-cores/busy_network.json",
    "epyc-zen4-2-cores/busy_quiet_before.json",
    "epyc-zen4-2-cores/c_library.json",
    "epyc-zen4-2-cores/call_overhead.json",
    "epyc-zen4-2-cores/cuda_samples.json",
    "epyc-zen4-2-cores/cuda_samples_emulated.json",
    "epyc-zen4-2-cores/cuda_samples_tensor_core.json",
    "epyc-zen4-2-cores/cuda_samples_tensor_core_emulated.json",
    "epyc-zen4-2-cores/kills.json",
    "epyc-zen4-2-cores/lengths.json",
    "epyc-zen4-2-cores/low_precision.json",
    "epyc-zen4-2-cores/measure_overhead.json",
    "epyc-zen4-2-cores/network_kills.json",
    "epyc-zen4-2-cores/networks.json",
    "epyc-zen4-2-cores/networks_backend.json",
    "epyc-zen4-2-cores/networks_tuning_time.json",
    "epyc-zen4-2-cores/papers_deplodock-patience.json",
    "epyc-zen4-2-cores/papers_storm-budgets.json",
    "epyc-zen4-2-cores/papers_storm-exploiters.json",
    "epyc-zen4-2-cores/priors.json",
    "epyc-zen4-2-cores/race_before.json",
    "epyc-zen4-2-cores/race_before_256.json",
    "epyc-zen4-2-cores/replay.json",
    "epyc-zen4-2-cores/search_race_dep.json",
    "epyc-zen4-2-cores/searches.json",
    "epyc-zen4-2-cores/searches_before.json",
    "epyc-zen4-2-cores/searches_kernel_tuner.json",
    "epyc-zen4-2-cores/shapes.json",
    "epyc-zen4-2-cores/space_quality.json",
    "epyc-zen4-2-cores/space_quality_odd.json",
    "epyc-zen4-2-cores/suite_ansor.json",
    "epyc-zen4-2-cores/suite_ansor_subgraphs.json",
    "epyc-zen4-2-cores/suite_deplodock.json",
    "epyc-zen4-2-cores/suite_storm.json",
    "epyc-zen4-2-cores/torch_backend.json",
    "epyc-zen4-2-cores/verification_cost.json",
    "gauntlet.json",
    "h100/gpu.json",
    "h100/gpu_descent_default.json",
    "indices.json",
    "primitives.json",
    "torch_operators.json",
    "xeon-avx512-2-cores/cost_model.json",
    "xeon-avx512-2-cores/database.json",
    "xeon-avx512-2-cores/explore_exploit.json",
    "xeon-avx512-2-cores/networks_tune_relax.json",
    "xeon-avx512-2-cores/relax_apply.json",
    "xeon-avx512-2-cores/report.json",
    "xeon-avx512-2-cores/screening.json",
    "xeon-avx512-2-cores/search_race_default.json",
    "xeon-avx512-2-cores/vs_torch.json",
]


def commits(document: Any) -> list[str]:
    """Return the commits that a file names: of the whole, and of its rows."""
    if not isinstance(document, dict):
        return []
    rows = document.get("rows")
    parts = [document, document.get("made_with", {}), *(rows if isinstance(rows, list) else [])]
    return [part["commit"] for part in parts if isinstance(part, dict) and "commit" in part]


def is_clean(document: Any) -> bool:
    found = commits(document)
    return bool(found) and all(re.fullmatch(r"[0-9a-f]{7,40}", commit) for commit in found)


def stored(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def test_each_result_names_a_clean_commit() -> None:
    names = {str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*.json")}
    without = {name for name in names if not is_clean(stored(name))}
    assert without - set(OLDER) == set(), "store results by _results.store, from a clean checkout"
    assert set(OLDER) - without == set(), "these have a commit now, or are gone: take them out"


def test_a_commit_of_changed_files_is_not_clean() -> None:
    assert is_clean({"made_with": {"commit": "0123abcd"}})
    assert is_clean({"commit": "0123abcd", "rows": [{"commit": "0123abcd"}]})
    assert not is_clean({"made_with": {"commit": "0123abcd-dirty"}})
    assert not is_clean({"made_with": {"commit": "0123abcd"}, "rows": [{"commit": "unknown"}]})
    assert not is_clean({"rows": [1]}) and not is_clean([{"commit": "0123abcd"}])


@pytest.mark.parametrize("document", [{"seed": 1, "made_with": {"commit": "old"}}, [{"seed": 1}]])
def test_what_is_stored_says_what_it_was_made_with(tmp_path: Path, document: Any) -> None:
    file = tmp_path / "folder" / "x.json"
    _results.store(document, file)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert next(iter(found)) == "made_with" and found["made_with"] == _results.made_with()
    assert {"commit", "date", "packages", "target", "cores", "system"} <= set(found["made_with"])
    assert found.get("seed", found.get("rows")) in (1, [{"seed": 1}])
    assert [one.name for one in file.parent.iterdir()] == ["x.json"]


def mean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(values)


def race(document: Any, trials: str) -> dict[str, float]:
    """Return how many times as fast our kernels are, by workload: the median of the seeds."""
    ratios: dict[str, list[float]] = {}
    for one in document["finals"]:
        latency = one["latency"]
        ratio = latency["metaschedule"]["256"] / latency["auto"][trials]
        ratios.setdefault(one["workload"], []).append(ratio)
    return {name: statistics.median(found) for name, found in ratios.items()}


def race_figures(document: Any) -> list[float]:
    few, many = race(document, "64"), race(document, "256")
    assert len(few) == 13
    plain = [[v for name, v in one.items() if name != "SFM"] for one in (few, many)]
    return [
        mean(few.values()),
        min(few.values()),
        document["time_ratio"],
        mean(many.values()),
        min(many.values()),
        few["SFM"],
        *map(mean, plain),
    ]


def operators_of_gpu(document: Any) -> list[Any]:
    """Return lowest, highest and mean ratio; trials and seconds of both sides; who finished."""
    names = ("C1D", "C2D", "DEP", "DIL", "CBR", "GMM", "NRM", "SFM", "T2D", "TBG")
    rows = [document["rows"][name] for name in names]
    ratios = [row["metaschedule over schedlang"] for row in rows]
    ended = [row["metaschedule over schedlang"] for row in rows if not row["metaschedule"]["error"]]
    bounds = [
        bound(row[side][field] for row in rows)
        for field in ("trials", "seconds")
        for side in ("schedlang", "metaschedule")
        for bound in (min, max)
    ]
    return [min(ratios), max(ratios), mean(ratios), *bounds, len(rows) - len(ended), mean(ended)]


def products_of_gpu(document: Any) -> list[float]:
    rows = document["rows"]
    wgmma, small = rows["wgmma"], rows["gemm-1024"]["latency"]
    copies = [rows["memory"][name]["of the copy's"] for name in ("softmax", "layer norm")]
    return [
        wgmma["flops"]["wgmma"] / 1e12,
        wgmma["cublas over wgmma"],
        min(copies),
        small["cublas"] / small["schedlang"],
        wgmma["latency"]["cublas"] / wgmma["latency"]["mma.sync"],
        rows["convolution"]["cudnn over schedlang"],
    ]


def before_and_now(document: Any) -> list[float]:
    """Return mean, lowest and highest speed over that of an earlier search, and mean seconds."""
    sides: dict[Any, dict[str, Any]] = {}
    for row in document["rows"]:
        key = row["workload"], row["seed"], row["beside"]
        sides.setdefault(key, {})[row["side"]] = row
    speeds = [one["before"]["winner"] / one["now"]["winner"] for one in sides.values()]
    seconds = [one["now"]["seconds"] / one["before"]["seconds"] for one in sides.values()]
    return [mean(speeds), min(speeds), max(speeds), mean(seconds)]


def scores(document: Any, search: str) -> list[float]:
    found = [row["score"] for row in document["rows"] if row["search"] == search]
    return [statistics.fmean(found), min(found)]


Figures = Callable[[Any], Iterable[Any]]

# What a page says, with a place for each figure; the file that has them; how they follow from it.
SAID: list[tuple[str, str, str, Figures]] = [
    (
        "README.md",
        "| 64 trials | TVM's MetaSchedule, 256 trials | {:.2f} | {:.2f} | 1/{:.0f} |\n"
        "| 256 trials | TVM's MetaSchedule, 256 trials | {:.2f} | {:.2f} | |",
        f"{XEON}/search_race_default.json",
        lambda found: race_figures(found)[:5],
    ),
    (
        "README.md",
        "there the speed-up is {:.1f}, and without softmax the first two means are {:.2f} and "
        "{:.2f}",
        f"{XEON}/search_race_default.json",
        lambda found: race_figures(found)[5:],
    ),
    (
        "README.md",
        "| 256 trials | torch eager | {:.2f} | {:.2f} | |\n"
        '| 256 trials | `torch.compile(mode="max-autotune")` | {:.2f} | {:.2f} | |',
        f"{XEON}/vs_torch.json",
        lambda found: [
            found["torch"][f"{bound}_over_{side}"]
            for side in ("eager", "compiled")
            for bound in ("geomean", "worst")
        ],
    ),
    (
        "README.md",
        "Ten float32 operators were {:.2f} to {:.1f} times as fast as MetaSchedule's (geometric "
        "mean "
        "{:.1f}): of 64 trials allowed, {} to {} in",
        "h100/gpu.json",
        lambda found: operators_of_gpu(found)[:5],
    ),
    (
        "README.md",
        "in {:.0f} to {:.0f} seconds, against {} to {} in {:.0f} to {:.0f} seconds, as "
        "MetaSchedule "
        "was out of time in seven",
        "h100/gpu.json",
        lambda found: [operators_of_gpu(found)[k] for k in (7, 8, 5, 6, 9, 10)],
    ),
    (
        "README.md",
        "In the three that both finished the mean is {:.2f}.",
        "h100/gpu.json",
        lambda found: operators_of_gpu(found)[-1:],
    ),
    (
        "README.md",
        "A float16 product of 4096 by `UseWGMMA` reached {:.0f} TFLOP/s, {:.2f} of cuBLAS; "
        "softmax and "
        "layer normalisation reached {:.1f} of the copy rate.",
        "h100/gpu.json",
        lambda found: products_of_gpu(found)[:3],
    ),
    (
        "README.md",
        "older instructions reach {:.2f} to {:.2f} of cuBLAS and {:.2f} of cuDNN",
        "h100/gpu.json",
        lambda found: products_of_gpu(found)[3:],
    ),
    (
        "docs/searches.md",
        "are {:.2f} times as fast as those of an earlier `auto` ({:.2f} to {:.2f} by operator "
        "and run), "
        "in {:.2f} of the time",
        f"{ZEN4}/race_before.json",
        before_and_now,
    ),
    (
        "docs/searches.md",
        "| `coordinate_descent` (`auto`) | {:.3f} | {:.3f} |",
        f"{ZEN4}/searches.json",
        lambda found: scores(found, "coordinate_descent"),
    ),
    (
        "docs/searches.md",
        "its kernels after 100 trials were {:.2f} times as fast as those of `Evolutionary` "
        "after 1,000",
        f"{XEON}/explore_exploit.json",
        lambda found: [found["quality_ratio"]],
    ),
    (
        "docs/database.md",
        "records made for AVX2 gave {:.2f} times the default schedule's speed (geometric mean "
        "of {} "
        "programs",
        f"{ZEN4}/devices.json",
        lambda found: [mean(row["ratio"] for row in found["rows"]), len(found["rows"])],
    ),
    (
        "docs/trust.md",
        "it took {:.1%} (SFM), {:.1%} (GMM), {:.1%} (DEP) and {:.1%} (C2D)",
        f"{ZEN4}/verification_cost.json",
        lambda found: [found["shares"][name] for name in ("SFM", "GMM", "DEP", "C2D")],
    ),
    (
        "docs/trust.md",
        "(`--seed 7`) {:,} were right, {} refused, {} no program that TVM compiles",
        "primitives.json",
        lambda found: [found["schedules"][name] for name in ("right", "refused", "not compiled")],
    ),
    (
        "docs/trust.md",
        "compares {:,} programs with numpy",
        "indices.json",
        lambda found: [sum(sum(one.values()) for one in found["counts"].values())],
    ),
    (
        "docs/networks.md",
        "is {:.1f} for the convolutional networks",
        f"{ZEN4}/networks.json",
        lambda found: [found["figures"]["over eager, convolutional"]],
    ),
    (
        "docs/networks.md",
        "over the compiled ones it is {:.2f} and {:.1f}.",
        f"{ZEN4}/networks.json",
        lambda found: [
            found["figures"][f"over compiled, {kind}"] for kind in ("convolutional", "transformers")
        ],
    ),
    (
        "docs/c_libraries.md",
        "takes {:.2f} us in one thread. With two threads it takes {:.1f} us where these are "
        "awake, and "
        "{:.0f} us where they are asleep",
        f"{ZEN4}/c_library.json",
        lambda found: found["calls of nothing, us"].values(),
    ),
    (
        "docs/tutorials/shapes.md",
        "takes {:.2f} to {:.2f} times the time of the same schedule for 64, 128, 200, 256 or "
        "509 rows "
        "alone, where guards took {:.2f} to {:.2f} times",
        f"{ZEN4}/shapes.json",
        lambda found: [
            bound(row[side] / row["alone"] for row in found["tails"] if row["rows"] in WHOLE)
            for side in ("full tiles", "guards")
            for bound in (min, max)
        ],
    ),
]
WHOLE = (64, 128, 200, 256, 509)


@pytest.mark.parametrize(("page", "said", "file", "figures"), SAID)
def test_a_page_says_what_a_result_says(page: str, said: str, file: str, figures: Figures) -> None:
    values = [*figures(stored(file))]
    assert all(math.isfinite(value) for value in values)
    wanted = " ".join(said.format(*values).split())
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert wanted in text, f"by {file}, {page} has to say: {wanted}"
