"""Whether the program that is shown is the one that runs: winners compiled by plain TVM.

Each operator is tuned. Its winner is compiled by ``best.build()``, and by ``tvm.compile`` from
``best.mod``, from what ``as_tvm_python`` writes, and from what TVM's own pass makes of the
database. For each, the table says whether both lower to the same loops, and the latency over that
of ``best.build().main.entry``, which does not look at its arguments: the median of ratios of
samples taken in turns. ``noise`` is that ratio for a second ``best.build()`` of the same winner.
Where TVM's traces cannot hold all of a record, the pass applies it in part, and the column says so.

Target: the same loops everywhere, and ratios within 3% of 1.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from _results import store
from tvm import relax, te, tirx

import schedlang as sl
from schedlang.metaschedule import as_tvm_database
from schedlang.tvm.codegen import pipeline as cpu_pipeline
from schedlang.tvm.codegen.pipeline import default_pipeline, written_for_tvm

OURS, AGAIN, MODULE, PYTHON, DATABASE = "build", "noise", "best.mod", "as_tvm_python", "database"
STANDARD = tuple(name for name in sl.workloads.names() if name.isupper())
MIN_SECONDS = 0.005


def nchw() -> list[Any]:
    """Return a 3x3 convolution of 28 x 28 x 128, channels first, without padding of the input."""
    a, w = te.placeholder((128, 30, 30), name="A"), te.placeholder((128, 128, 3, 3), name="W")
    c, r, s = (te.reduce_axis((0, n), name=x) for n, x in ((128, "c"), (3, "r"), (3, "s")))
    return [
        a,
        w,
        te.compute(
            (128, 28, 28),
            lambda o, y, x: te.sum(a[c, y + r, x + s] * w[o, c, r, s], axis=[c, r, s]),
            name="C",
        ),
    ]


def dense_relu() -> list[Any]:
    """Return a layer of 65 rows and 190 columns with its activation."""
    a, w = te.placeholder((65, 128), name="A"), te.placeholder((128, 190), name="W")
    b, k = te.placeholder((190,), name="B"), te.reduce_axis((0, 128), name="k")
    product = te.compute((65, 190), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="P")
    zero = tirx.const(0, "float32")
    return [
        a,
        w,
        b,
        te.compute((65, 190), lambda i, j: te.max(product[i, j] + b[j], zero), name="C"),
    ]


def row_norm() -> list[Any]:
    """Return 77 rows of 513 over the root of their mean square."""
    a, k = te.placeholder((77, 513), name="A"), te.reduce_axis((0, 513), name="k")
    total = te.compute((77,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="T")
    scaled = te.compute(
        (77, 513), lambda i, j: a[i, j] / te.sqrt(total[i] / 513.0 + 1e-5), name="C"
    )
    return [a, scaled]


def transposed() -> list[Any]:
    """Return the transpose of 517 x 771."""
    a = te.placeholder((517, 771), name="A")
    return [a, te.compute((771, 517), lambda i, j: a[j, i], name="C")]


ODD: Mapping[str, Callable[[], Any]] = {
    "matmul 96x3000x17": lambda: sl.workloads.matmul(96, 3000, 17),
    "matmul 97x101x103": lambda: sl.workloads.matmul(97, 101, 103),
    "matmul 512x7x300": lambda: sl.workloads.matmul(512, 7, 300),
    "vector 1x1000x771": lambda: sl.workloads.matmul(1, 1000, 771),
    "batched 12x77x77x63": lambda: sl.workloads.get("GMM", n=77, m=77, k=63, batch=12),
    "conv 28x28x128 NCHW": nchw,
    "dense relu 65x190": dense_relu,
    "row norm 77x513": row_norm,
    "transpose 517x771": transposed,
}


def from_python(schedule: sl.Schedule) -> Any:
    """Return the program that the trace's Python for TVM makes."""
    namespace: dict[str, Any] = {}
    exec(schedule.trace.as_tvm_python(), namespace)
    return namespace["sch"].mod


def from_database(workload: sl.Workload, database: Path, target: sl.Target) -> tuple[Any, str]:
    """Return the program that TVM's pass makes of a database, and what it lacks of the record."""
    view = as_tvm_database(database)
    named = workload.func.with_attr("global_symbol", "main")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with target.tvm_target(), view:
            mod = relax.transform.MetaScheduleApplyDatabase()(tvm.IRModule({"main": named}))
    if view.partial:
        return mod, "in part"
    return mod, "" if view.used else "not found"


def lowered(mod: Any, pipeline: Any, target: sl.Target) -> Any:
    """Return the body that a pipeline lowers a program to, without statements of alignment."""
    machine = target.tvm_target()
    bound = tvm.tirx.transform.BindTarget(machine.with_host(machine))(mod)
    return cpu_pipeline._assume_no_alignment(pipeline(bound)["main"], None, None).body


def compared(name: str, program: Any, given: argparse.Namespace, database: Path) -> dict[str, Any]:
    """Tune an operator, and compare the ways of compiling its winner."""
    target = sl.Target("cpu")
    workload = sl.workloads.as_workload(program)
    best = sl.tune(workload, target, trials=given.trials, database=database, seed=0).best
    schedule = best.schedule
    mods = {MODULE: written_for_tvm(schedule.mod), PYTHON: from_python(schedule)}
    mods[DATABASE], lacks = from_database(workload, database, target)
    expected = lowered(written_for_tvm(schedule.mod), cpu_pipeline._pipeline()[0], target)
    same = {
        way: tvm_ffi.structural_equal(
            lowered(mod, default_pipeline()[0], target), expected, map_free_vars=True
        )
        for way, mod in mods.items()
    }
    rng = np.random.default_rng(0)
    tensors = [
        tvm.runtime.tensor(rng.standard_normal(arg.shape).astype(arg.dtype))
        for arg in workload.args
    ]
    # What comes before the loops, as looking at the arguments, is no part of the program.
    calls = {OURS: best.build().main.entry, AGAIN: best.build().main.entry}
    calls |= {
        way: tvm.compile(mod, target=target.tvm_target())["main"] for way, mod in mods.items()
    }
    samples = in_turns(
        {way: lambda call=call: call(*tensors) for way, call in calls.items()}, given
    )
    ratios = {
        way: statistics.median(a / b for a, b in zip(samples[way], samples[OURS], strict=True))
        for way in calls
        if way != OURS
    }
    return {
        "name": name,
        "latency": statistics.median(samples[OURS]),
        "same loops": same,
        "ratio": ratios,
        "lacks": lacks,
        "overlaps": schedule.mod.script() != schedule.guarded_mod.script(),
    }


def in_turns(
    calls: Mapping[str, Callable[[], Any]], given: argparse.Namespace
) -> dict[str, list[float]]:
    """Return seconds a call for each side, one sample of each per round, there and back."""
    for call in calls.values():
        call()
    start = time.perf_counter()
    calls[OURS]()
    count = max(1, round(MIN_SECONDS / max(time.perf_counter() - start, 1e-7)))
    samples: dict[str, list[float]] = {way: [] for way in calls}
    for number in range(given.rounds):
        for way in [*calls] if number % 2 else [*calls][::-1]:
            start = time.perf_counter()
            for _ in range(count):
                calls[way]()
            samples[way].append((time.perf_counter() - start) / count)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two operators, 4 trials, 3 rounds")
    parser.add_argument("--operators", nargs="+", help="names of the table; by default all")
    parser.add_argument("--trials", type=int, default=32, help="trials of each operator")
    parser.add_argument("--rounds", type=int, default=31, help="samples of each side")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    programs: dict[str, Callable[[], Any]] = {
        **{name: lambda name=name: sl.workloads.get(name) for name in STANDARD},
        **ODD,
    }
    if given.quick:
        given.trials, given.rounds = 4, 3
        programs = {name: programs[name] for name in ("GMM", "matmul 97x101x103")}
    if given.operators:
        programs = {name: programs[name] for name in given.operators}
    rows = []
    print(f"{'':22}{'us':>9} {'overlaps':9}{'noise':>7}  same loops, ratio: ", end="")
    print(f"{MODULE:>13}{PYTHON:>17}{DATABASE:>17}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(programs.items()):
            row = compared(name, make(), given, Path(folder) / f"{number}.db")
            rows.append(row)
            shown = [
                f"{'same' if row['same loops'][way] else 'other'} {row['ratio'][way]:.3f}"
                for way in (MODULE, PYTHON)
            ]
            known = "same" if row["same loops"][DATABASE] else row["lacks"] or "another"
            shown.append(f"{known} {row['ratio'][DATABASE]:.3f}")
            overlaps = "yes" if row["overlaps"] else ""
            print(
                f"{name:22}{row['latency'] * 1e6:9.1f} {overlaps:9}{row['ratio'][AGAIN]:7.3f}"
                f"{'':20}{shown[0]:>13}{shown[1]:>17}{shown[2]:>17}",
                flush=True,
            )
    for way in (AGAIN, MODULE, PYTHON):
        values = [row["ratio"][way] for row in rows]
        print(
            f"{way:14} {min(values):.3f} to {max(values):.3f}, mean {statistics.fmean(values):.3f}"
        )
    if given.json is not None:
        document = {"trials": given.trials, "rows": rows}
        store(document, given.json)


if __name__ == "__main__":
    main()
