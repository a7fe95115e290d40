"""One tuning for many shapes: what shapes lose to being tuned by themselves, and what it saves.

``dense`` has 64 shapes of a dense layer: rows 1 to 512, the widths of BERT and an odd one.
``convolution`` has 40 of ResNet, Inception and MobileNet. ``range`` is a dense layer of any number
of rows from 1 to 512, asked at numbers of rows that no measuring saw.

Each set is tuned once with ``tune_shapes``, and each shape by itself with as many trials as
``tune_shapes`` gives to those in earnest, without transfer. Both programs of a shape are then
timed in turns. A loss is the latency with the set's program over that with the shape's own.

Targets: geometric mean of the losses at most 1.05, worst 1.15, with at most 20% of the
measurements; dispatch under a microsecond.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _race import hold_finals
from _results import store

import schedlang as sl
from schedlang.interpreters.conversions import to_symbolic
from schedlang.targets import LocalCPU
from schedlang.tvm.symbolic_program import unify

ROWS = (1, 2, 4, 7, 8, 16, 17, 32, 64, 100, 128, 200, 256, 333, 509, 512)
# Inner and outer width: BERT's projections, its two wide layers, and an odd one.
WIDTHS = ((768, 768), (768, 3072), (3072, 768), (511, 771))
# Size of the image, input and output channels, kernel, stride.
CONVOLUTIONS = (
    (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1),
    (56, 256, 128, 1, 1), (56, 128, 128, 3, 2), (28, 128, 512, 1, 1), (56, 256, 512, 1, 2),
    (28, 512, 128, 1, 1), (28, 128, 128, 3, 1), (28, 512, 256, 1, 1), (28, 256, 256, 3, 2),
    (14, 256, 1024, 1, 1), (28, 512, 1024, 1, 2), (14, 1024, 256, 1, 1), (14, 256, 256, 3, 1),
    (14, 1024, 512, 1, 1), (14, 512, 512, 3, 2), (7, 512, 2048, 1, 1), (14, 1024, 2048, 1, 2),
    (7, 2048, 512, 1, 1), (7, 512, 512, 3, 1), (112, 3, 32, 3, 2), (112, 32, 16, 1, 1),
    (112, 16, 96, 1, 1), (56, 96, 24, 1, 1), (56, 24, 144, 1, 1), (28, 144, 32, 1, 1),
    (28, 32, 192, 1, 1), (14, 192, 64, 1, 1), (14, 64, 384, 1, 1), (14, 384, 96, 1, 1),
    (14, 96, 576, 1, 1), (7, 576, 160, 1, 1), (7, 160, 960, 1, 1), (7, 960, 320, 1, 1),
    (35, 192, 48, 1, 1), (35, 48, 64, 5, 1), (35, 64, 96, 3, 1), (17, 768, 192, 1, 1),
)  # fmt: skip
# Rows of which tiles of 8 rows are cut off, or fit.
TAILS = (17, 33, 64, 100, 128, 200, 256, 509)
UNSEEN_ROWS = (3, 5, 11, 13, 23, 47, 61, 97, 150, 222, 307, 400, 450, 511)

Shape = Mapping[str, int]


def dense(rows: int, inner: int, width: int) -> Any:
    """A dense layer without bias."""
    return sl.workloads.matmul(rows, width, inner)


def convolution(size: int, inputs: int, outputs: int, kernel: int, stride: int) -> Any:
    """A two-dimensional convolution, padded so that stride 1 keeps the size."""
    return sl.workloads.conv2d(size, size, inputs, outputs, kernel, stride, kernel // 2)


def dense_shapes() -> list[Shape]:
    """The shapes of the dense layer."""
    return [{"rows": r, "inner": k, "width": n} for k, n in WIDTHS for r in ROWS]


def convolution_shapes() -> list[Shape]:
    """The shapes of the convolution."""
    names = ("size", "inputs", "outputs", "kernel", "stride")
    return [dict(zip(names, one, strict=True)) for one in CONVOLUTIONS]


def compare(
    template: Callable[..., Any],
    shapes: Any,
    asked: Sequence[Shape],
    given: argparse.Namespace,
    folder: Path,
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Tune a set, each shape by itself, and time both in turns."""
    name = template.__name__ if isinstance(shapes, list) else "range"
    database, own = folder / f"{name}_set.db", folder / f"{name}_own.db"
    found = sl.tune_shapes(
        template, shapes, trials=given.trials, seed=given.seed, database=database, progress=False
    )
    document: dict[str, Any] = {
        "set": name,
        "shapes": len(asked),
        "measured": _count(database),
        "seconds": _seconds(database),
        "rows": [],
    }
    print(found, flush=True)
    for shape in asked:
        document["rows"].append(_row(template, found, shape, given, own))
        document["seconds of their own"] = _seconds(own, each=True)
        # Everything counts: unscheduled programs, and what was measured again.
        document["share"] = document["measured"] / _count(own)
        losses = [row["loss"] for row in document["rows"] if row["loss"] is not None]
        document["mean loss"] = statistics.geometric_mean(losses)
        document["worst loss"] = max(losses)
        left = [r["loss"] for r in document["rows"] if r["origin"] != "tuned" and r["loss"]]
        document["mean loss of shapes left out"] = statistics.geometric_mean(left or [1.0])
        keep(document)
    return document


def _count(database: Path) -> int:
    with sl.open_database(database, read_only=True) as opened:
        return opened.count()


def _seconds(database: Path, *, each: bool = False) -> float:
    """Return how long measuring took, from the first record to the last: of ``each`` program."""
    times: dict[str, list[float]] = {}
    with sl.open_database(database, read_only=True) as opened:
        for record in opened.query():
            times.setdefault(record.workload_key if each else "", []).append(record.created)
    return sum(max(one) - min(one) for one in times.values())


def _row(
    template: Callable[..., Any],
    found: sl.ShapeSet,
    shape: Shape,
    given: argparse.Namespace,
    database: Path,
) -> dict[str, Any]:
    workload = sl.workloads.as_workload(template(**shape))
    own = sl.tune(
        workload,
        trials=given.trials,
        seed=given.seed + 1,
        transfer=False,
        database=database,
        progress=False,
    )
    serving = found.serving(**shape)
    entries = {"set": [serving.mod], "own": [own.best.schedule.mod]}
    standing = hold_finals(workload, sl.Target("cpu"), entries)
    times = {side: standing.latencies.get(side) for side in entries}
    known = None not in times.values()
    row = {
        "shape": dict(shape),
        "origin": getattr(serving, "origin", "range"),
        **times,
        "loss": times["set"] / times["own"] if known else None,
    }
    shown = "-" if row["loss"] is None else f"{row['loss']:.3f}"
    print(f"  {' '.join(map(str, shape.values())):28s} {row['origin']:14s} {shown}", flush=True)
    return row


def dispatch() -> dict[str, float]:
    """Nanoseconds of a call of one kernel, of one function with a tree, and of the whole set."""

    def scale(rows: int) -> Any:
        from tvm import te

        a = te.placeholder((rows, 8), name="A")
        return [a, te.compute((rows, 8), lambda i, j: a[i, j] * 2.0, name="B")]

    found = sl.tune_shapes(scale, {"rows": (1, 64)}, trials=8, exact=8, progress=False)
    single = sl.Target("cpu").build(sl.workloads.as_workload(scale(rows=4)).mod).main
    tree = found.kernel(rows=4)
    a, b = np.ones((4, 8), "float32"), np.ones((4, 8), "float32")

    def nanoseconds(call: Callable[..., None]) -> float:
        samples = []
        for _ in range(21):
            began = time.perf_counter()
            for _ in range(2000):
                call(a, b)
            samples.append((time.perf_counter() - began) / 2000 * 1e9)
        return statistics.median(samples)

    return {
        "one kernel": nanoseconds(single),
        "function of a range": nanoseconds(tree),
        "set": nanoseconds(found),
    }


def tails() -> list[dict[str, Any]]:
    """One schedule for any number of rows, over the same for each number alone, in turns."""

    def programs(rows: int) -> sl.Workload:
        return sl.workloads.as_workload(dense(rows, 768, 768))

    rows = [{"rows": k} for k in (1, 7, 33, 64, 100, 128, 250, 512)]
    program = unify(rows, [programs(**one).mod for one in rows])
    trace = sl.default_space().sample(programs(64), seed=0).trace
    line, made_for = trace.instructions, programs(64)
    found = []
    for count in TAILS:
        alone = programs(count)
        sides = {
            "alone": to_symbolic(line, made_for, alone.mod, full_tiles=False),
            "guards": to_symbolic(line, made_for, program.mod, full_tiles=False),
            "full tiles": to_symbolic(line, made_for, program.mod),
        }
        with LocalCPU(alone) as measurer:
            candidates = [sl.Candidate(k, mod) for k, mod in enumerate(sides.values())]
            measured = measurer.remeasure(candidates)
        latencies = {side: one.latency for side, one in zip(sides, measured, strict=True) if one.ok}
        found.append({"rows": count, **latencies})
        print(f"  {count} rows: {latencies}", flush=True)
    return found


def table(document: Mapping[str, Any]) -> str:
    """The figures of all sets."""
    lines = ["set           shapes  measured  share   time  loss  left out  worst"]
    for one in document["sets"]:
        saved = one["seconds of their own"] / one["seconds"] if one["seconds"] else 0.0
        lines.append(
            f"{one['set']:12s}  {one['shapes']:6d}  {one['measured']:8d}  {one['share']:5.1%}"
            f"  1/{saved:3.1f}  {one['mean loss']:.3f}  {one['mean loss of shapes left out']:8.3f}"
            f"  {one['worst loss']:.3f}"
        )
    if document.get("dispatch"):
        shown = ", ".join(f"{name} {value:.0f} ns" for name, value in document["dispatch"].items())
        lines.append(f"a call: {shown}")
    for one in document.get("tails", ()):
        ratios = ", ".join(
            f"{side} {one[side] / one['alone']:.2f}"
            for side in ("guards", "full tiles")
            if side in one and "alone" in one
        )
        lines.append(f"{one['rows']} rows, over a kernel for these rows alone: {ratios}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="6 shapes of each set, 16 trials")
    parser.add_argument("--sets", nargs="+", default=["dense", "convolution", "range"])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--databases", type=Path, help="keep the records in this folder")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    if given.quick:
        given.trials = min(given.trials, 16)
    document: dict[str, Any] = {
        "target": sl.Target("cpu").key,
        "software": sl.Target("cpu").provenance(),
        "trials": given.trials,
        "sets": [],
    }

    def save() -> None:
        if given.json is not None:
            store(document, given.json)

    with tempfile.TemporaryDirectory() as scratch:
        folder = given.databases or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in given.sets:
            template, listed = {
                "dense": (dense, dense_shapes()),
                "convolution": (convolution, convolution_shapes()),
                "range": (dense, [{"rows": r, "inner": 768, "width": 768} for r in UNSEEN_ROWS]),
            }[name]
            asked = listed[:: len(listed) // 6] if given.quick else listed
            shapes: Any = asked
            if name == "range":
                shapes = {"rows": (1, 512), "inner": 768, "width": 768}
            others = list(document["sets"])

            def keep(one: dict[str, Any], others: list[dict[str, Any]] = others) -> None:
                document["sets"] = [*others, one]
                save()

            compare(template, shapes, asked, given, folder, keep)
    document["dispatch"] = dispatch()
    document["tails"] = tails()
    save()
    print(table(document))


if __name__ == "__main__":
    main()
