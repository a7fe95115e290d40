"""Sets of shapes that were never tuned, with all that a report shows."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.shapes import PointKernel, ShapeSet
from schedlang.shapes.dispatch import Leaf, Split, Tree, with_exact
from schedlang.shapes.extents import Range
from schedlang.shapes.ranges import Kernel, RangeKernels
from schedlang.targets import Target
from schedlang.workloads.construct import Template

TREES: tuple[Tree, ...] = (
    Split("rows", 12, Leaf(0), Split("width", 200, Leaf(1), Split("rows", 90, Leaf(2), Leaf(3)))),
    Split("rows", 90, Split("rows", 7, Leaf(2), Leaf(0)), Split("rows", 700, Leaf(1), Leaf(3))),
)
RANGES = ({"rows": (1, 512), "width": (64, 768)}, {"rows": (1, 4096), "width": (3072, 3072)})
ALONE = 3
"""Shapes of the second range that have kernels of their own."""
NOTHING: Any = None
"""Traces and programs, at which a report does not look."""


def dense(rows: int, width: int) -> Any:
    """The template."""
    return sl.workloads.matmul(rows, width, 64)


def make_shapes(
    seed: int = 0, *, points: int = 6, ranges: int = 2, name: str = "dense"
) -> ShapeSet:
    """A set with single shapes, ranges, a kernel that fails for some shapes, and a failed shape."""
    rng = random.Random(seed)
    template = Template(dense)
    template.name = name
    singles = []
    for number in range(points):
        origin = ("tuned", "carried over", "default schedule")[min(number, points - number - 1, 2)]
        known = origin != "default schedule"
        latency = 4e-6 * 2**number if known else math.nan
        extents = {"rows": 7 * 2**number, "width": 768}
        trials = 64 if origin == "tuned" else 5 * known
        singles.append(PointKernel(extents, 1.0 + number, NOTHING, origin, latency, trials))
    found = tuple(make_range(number % 2, rng) for number in range(ranges))
    failed = {"rows=9, width=1": "dense(rows=9, width=1): ValueError: it is too narrow"}
    return ShapeSet(
        template,
        Target("cpu"),
        ("rows", "width"),
        tuple(singles),
        found,
        failed if points else {},
        1234,
        93.0,
    )


def make_range(place: int, rng: random.Random) -> RangeKernels:
    """A range whose shapes take the kernel that is fastest near them; one kernel fails at times."""
    asked, tree = Range(RANGES[place]), TREES[place]
    large = {
        name: (ALONE + 1 if place else low, high) for name, (low, high) in asked.bounds.items()
    }
    large["width"] = asked.bounds["width"]
    samples = Range(large).samples()
    origins = ["tuned at {}", "tuned at {}", "tuned at {}", "default schedule"]
    kernels = []
    for number, origin in enumerate(origins):
        extents = samples[(7 * number + place) % len(samples)]
        shape = ", ".join(f"{name}={value}" for name, value in extents.items())
        kernels.append(Kernel(origin.format(shape), extents, NOTHING, NOTHING))
    latencies = np.zeros((len(samples), len(kernels)))
    if place:
        tree = with_exact("rows", {rows: 3 + rows for rows in range(1, ALONE + 1)}, tree)
        for rows in range(1, ALONE + 1):
            extents = asked.edge(0) | {"rows": rows}
            kernels.append(Kernel(f"for rows={rows} alone", extents, NOTHING, NOTHING, alone=True))
    for row, extents in enumerate(samples):
        work = 1e-9 * extents["rows"] * extents["width"]
        taken = tree.find(extents)
        for column in range(latencies.shape[1]):
            away = abs(column - taken)
            latencies[row, column] = work * (1 + 0.04 * rng.random() + away**3 * rng.random())
            if column == 1 and away and rng.random() < 0.5:
                latencies[row, column] = math.inf
    regret = latencies.min(axis=1)
    best = regret * np.array([1 - 0.1 * rng.random() for _ in samples])
    return RangeKernels(
        range=asked,
        program=NOTHING,
        kernels=tuple(kernels),
        tree=tree,
        mod=NOTHING,
        samples=tuple(samples),
        latencies=latencies,
        best=best,
        regret=1.1 * regret / best,
        verified=tuple(samples),
        measured=latencies.size,
    )
