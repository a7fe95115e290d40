"""Measure a Relax model that TVM's own pass compiles from a schedlang database, against untuned.

Each function of a model of three matmuls is tuned, with records in an SQLite file. The same passes
then compile the model with an empty database and with that file. Reported for the model and for
each function: latency without and with the records, and their ratio.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from _results import store
from tvm import relax
from tvm.tirx.function import PrimFunc

import schedlang as sl
from schedlang.database import Database
from schedlang.metaschedule import as_tvm_database
from schedlang.targets import build_callable

MIN_SECONDS = 0.01
REPEATS = 20


def lowered(rows: int, widths: list[int], target: Any) -> Any:
    """relu(x a) b c after fusion, as MetaSchedule's pass sees it."""
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{number}", relax.TensorType(shape, "float32"))
        for number, shape in enumerate(shapes_of(rows, widths))
    ]
    with builder.function("forward", inputs):
        with builder.dataflow():
            value, first, *others = inputs
            value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, first)))
            for weight in others:
                value = builder.emit(relax.op.matmul(value, weight))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    with target:
        return relax.get_pipeline("zero")(builder.get())


def shapes_of(rows: int, widths: list[int]) -> list[tuple[int, int]]:
    """Return the shapes of the model's input and weights."""
    return [(rows, widths[0]), *itertools.pairwise(widths)]


def tuned_names(mod: Any) -> list[str]:
    """Return the functions to tune: the matrix products, which take most of the time."""
    return sorted(
        var.name_hint
        for var, func in mod.functions.items()
        if isinstance(func, PrimFunc) and "matmul" in var.name_hint
    )


def compile_from(
    database: Database | Path, mod: Any, target: sl.Target
) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """Compile the model with TVM's pass; also return the functions found and those not found."""
    view = as_tvm_database(database)
    with target.tvm_target(), view:
        applied = relax.transform.MetaScheduleApplyDatabase()(mod)
        executable = tvm.compile(applied, target=target.tvm_target())
    return executable, dict(view.used), dict(view.missed)


def latency(call: Callable[[], Any]) -> float:
    """Seconds of one call: the median over repeats of at least ``MIN_SECONDS``."""
    call()
    count, spent = 1, 0.0
    while spent < MIN_SECONDS:
        count *= 2
        start = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - start
    samples = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples)


def function_latency(mod: Any, target: sl.Target, workload: sl.Workload) -> float:
    """Return the latency of one function, in seconds."""
    kernel = build_callable(mod, target)
    rng = np.random.default_rng(0)
    arguments = [
        tvm.runtime.tensor(rng.standard_normal(arg.shape).astype(arg.dtype))
        for arg in workload.args
    ]
    return latency(lambda: kernel(*arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 trials for each function")
    parser.add_argument("--trials", type=int, default=32, help="trials per function")
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--widths", type=int, nargs="+", default=[512, 512, 256, 128])
    parser.add_argument("--database", type=Path, help="keep the records in this file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    trials = 4 if given.quick else given.trials
    target = sl.Target("cpu")
    mod = lowered(given.rows, given.widths, target.tvm_target())
    names = tuned_names(mod)
    rows: list[tuple[str, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = given.database or Path(folder) / "tune.db"
        for name in names:
            workload = sl.workloads.from_module(mod, function=name)
            result = sl.tune(workload, target, trials=trials, database=path)
            rows.append(
                (
                    name,
                    function_latency(workload.mod, target, workload),
                    function_latency(result.best.schedule.mod, target, workload),
                )
            )
        rng = np.random.default_rng(0)
        arguments = [
            tvm.runtime.tensor(rng.standard_normal(shape).astype("float32"))
            for shape in shapes_of(given.rows, given.widths)
        ]
        latencies, outputs = [], []
        for database in (Database(), path):
            executable, used, missed = compile_from(database, mod, target)
            forward = relax.VirtualMachine(executable, tvm.cpu())["forward"]
            outputs.append(forward(*arguments).numpy())
            latencies.append(latency(lambda forward=forward: forward(*arguments)))
        np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-3, atol=1e-2)
    print(f"{len(used)} functions from the database; not found: {missed or 'none'}")
    print(f"{'':24}{'untuned us':>12}{'tuned us':>12}{'speed-up':>10}")
    rows.append(("model", latencies[0], latencies[1]))
    for name, before, after in rows:
        print(f"{name:24}{before * 1e6:12.1f}{after * 1e6:12.1f}{before / after:9.1f}x")
    if given.json is not None:
        found = [{"name": name, "untuned": old, "tuned": new} for name, old, new in rows]
        document = {"target": target.key, "trials": trials, "missed": missed, "rows": found}
        store(document, given.json)


if __name__ == "__main__":
    main()
