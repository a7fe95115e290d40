"""MetaSchedule, Figure 10 left: BERT's fused dense in spaces composed module by module.

Each space is tuned, with the same trials, and the winners of all spaces are then timed in turns.
In bfloat16, whose numbers are others, the default space is set beside the one with ``UseBF16Dot``
where the machine has the instructions. For CUDA, samples of the composed spaces are emulated on
the CPU: their numbers are verified, and there is no latency.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _race import hold_finals
from _race_plot import COLOURS, with_panels
from gpu_rows.workloads import fused_dense

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit, database_of, grouped
from paper_rows.metaschedule_spaces import Step, cpu_steps, cuda_steps, dot_steps
from schedlang.analysis.intrinsics import host_features

# Of BERT's base: 128 tokens, 768 units, four times as many in between.
_BERT, _QUICK = (128, 768, 3072), (128, 128, 256)
_EMULATED = (32, 40, 48)
TRIALS, _QUICK_TRIALS = 128, 8
_MOST_SEEDS = 3
_SAMPLES, _QUICK_SAMPLES = 2, 1
_COLUMNS = ("trials", "failed", "seconds")

PARTS: Mapping[str, Callable[[sl.Target], Mapping[str, Step]]] = {
    "float32": cpu_steps,
    "bfloat16": dot_steps,
}


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each space and seed, for the finals, and for each emulated space."""
    target = sl.Target("cpu")
    found: list[Unit] = []
    for dtype, steps in PARTS.items():
        if dtype == "bfloat16" and "avx512bf16" not in host_features():
            continue
        for seed in range(1 if settings.quick else min(settings.seeds, _MOST_SEEDS)):
            found += [{"part": dtype, "step": one, "seed": seed} for one in steps(target)]
            found.append({"part": dtype, "step": "finals", "seed": seed})
    cuda = sl.Target("cuda", arch="sm_90")
    return found + [{"part": "emulated", "step": one, "seed": 0} for one in cuda_steps(cuda)]


def job(unit: Unit, settings: Settings) -> Row:
    """Tune in a space, time the winners of all, or emulate samples."""
    if unit["part"] == "emulated":
        return emulated(unit, _QUICK_SAMPLES if settings.quick else _SAMPLES)
    if unit["step"] == "finals":
        return finals(unit, settings)
    step = PARTS[unit["part"]](sl.Target("cpu"))[unit["step"]]
    result = tuned(unit, settings)
    return {
        "line": step.line,
        "modules": [one.name for one in step.space],
        "trials": len(result.records),
        "failed": sum(not one.ok for one in result.records),
        "as tuned": result.best.latency,
        "unscheduled": result.reference_latency,
        "seconds": result.seconds,
    }


def workload_of(dtype: str, settings: Settings) -> sl.Workload:
    """Return the fused dense with operands of a type; results are float32."""
    return fused_dense(*(_QUICK if settings.quick else _BERT), dtype, out_dtype="float32")


def tuned(unit: Unit, settings: Settings) -> sl.TuneResult:
    """Tune in the space of a unit; where that is done, read the result from its database."""
    target = sl.Target("cpu")
    return sl.tune(
        workload_of(unit["part"], settings),
        target,
        space=PARTS[unit["part"]](target)[unit["step"]].space,
        trials=_QUICK_TRIALS if settings.quick else TRIALS,
        seed=unit["seed"],
        transfer=False,
        progress=False,
        database=database_of({"figure": "metaschedule"} | unit, settings),
    )


def finals(unit: Unit, settings: Settings) -> Row:
    """Time the winners of a seed in turns; return the median latency of each in seconds."""
    target = sl.Target("cpu")
    winners = {
        step: [tuned(unit | {"step": step}, settings).best.schedule.mod]
        for step in PARTS[unit["part"]](target)
    }
    start = time.perf_counter()
    standing = hold_finals(workload_of(unit["part"], settings), target, winners)
    return {"latency": standing.latencies, "seconds": time.perf_counter() - start}


def emulated(unit: Unit, samples: int) -> Row:
    """Emulate samples of a CUDA space; return how many have the right numbers."""
    start = time.perf_counter()
    step = cuda_steps(sl.Target("cuda", arch="sm_90"))[unit["step"]]
    workload = fused_dense(*_EMULATED)
    drawn = [step.space.sample(workload, seed=seed) for seed in range(samples)]
    found = [sl.targets.cuda.emulate(one, orders=1) for one in drawn]
    return {
        "line": step.line,
        "modules": [one.name for one in step.space],
        "verified": sum(one.verified is True for one in found),
        "samples": len(found),
        "seconds": time.perf_counter() - start,
    }


def latencies(rows: Sequence[Row], part: str) -> dict[str, float]:
    """Return the median over seeds of each step's latency in the finals, in seconds."""
    found = [
        row["latency"]
        for row in rows
        if (row["unit"]["part"], row["unit"]["step"]) == (part, "finals")
    ]
    steps = dict.fromkeys(step for one in found for step in one)
    return {step: statistics.median(one[step] for one in found if step in one) for step in steps}


def _of(rows: Sequence[Row], part: str) -> dict[str, list[Row]]:
    """Return the rows of a part's steps, but for the finals."""
    steps = grouped([row for row in rows if row["unit"]["part"] == part], "step")
    return {step: mine for step, mine in steps.items() if step != "finals"}


def show(rows: Sequence[Row]) -> None:
    """Print a line for each space: its latency in the finals, trials, seconds of tuning."""
    for part in PARTS:
        if not (steps := _of(rows, part)):
            continue
        final = latencies(rows, part)
        slowest = max(final.values())
        print(f"\n{part:38}{'us':>9}{'speedup':>9}{'trials':>8}{'failed':>8}{'seconds':>9}")
        for step, mine in steps.items():
            numbers = [statistics.fmean(row[key] for row in mine) for key in _COLUMNS]
            told = f"{final[step] * 1e6:9.1f}{slowest / final[step]:9.2f}" if step in final else ""
            print(f"{mine[0]['line']:38}{told:18}" + "{:8.0f}{:8.1f}{:9.1f}".format(*numbers))
    print(f"\n{'cuda/sm_90, emulated':38}{'verified':>18}{'seconds':>17}")
    for (row,) in _of(rows, "emulated").values():
        verified = f"{row['verified']} of {row['samples']}"
        print(f"{row['line']:38}{verified:>18}{row['seconds']:17.1f}")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the throughput of each space's winner over that of the first, a panel for each type."""
    import matplotlib.pyplot as plt

    parts = [part for part in PARTS if _of(rows, part)]
    figure, panels = with_panels(parts)
    for panel, part in zip(panels, parts, strict=True):
        final, steps = latencies(rows, part), _of(rows, part)
        names = [step for step in steps if step in final]
        speedups = [final[names[0]] / final[step] for step in names]
        bars: Any = panel.barh(range(len(names)), speedups, color=COLOURS["evolutionary"])
        panel.bar_label(bars, [f"{final[step] * 1e6:.0f} µs" for step in names], padding=3)
        panel.set_yticks(range(len(names)), [steps[step][0]["line"] for step in names])
        panel.invert_yaxis()
        panel.set_xlim(0, 1.3 * max(speedups))
        panel.grid(axis="x", color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
    figure.supxlabel("throughput of the winner over that of the first space")
    figure.savefig(path, dpi=130)
    plt.close(figure)


FIGURES = (
    Figure(
        "metaschedule-modules",
        "MetaSchedule, Figure 10 left: the fused dense of BERT, 128 x 768 x 3072",
        units,
        job,
        show,
        draw,
    ),
)
