"""Single shapes, each with a program of its own; and what has none."""

from __future__ import annotations

import math
from collections import Counter

from schedlang.printed import count_text
from schedlang.report.numbers import latency_text, number_text
from schedlang.report.views.view import Table, View
from schedlang.shapes import PointKernel, ShapeSet
from schedlang.workloads.template import assigned

_READING = (
    "A few shapes, to which the others are near, are tuned in earnest; of the others, the programs "
    "that were fast for those are measured, and a few more. Trials are the candidates that were "
    "measured for the shape. A shape with the default schedule was not measured."
)


def points_view(found: ShapeSet) -> View:
    """Return the view of the single shapes."""
    counts = Counter(one.origin for one in found.points)
    origins = ", ".join(f"{count:,} {origin}" for origin, count in counts.items())
    table = Table(
        "Programs of single shapes",
        ("Shape", "Weight", "Latency", "GFLOP/s", "Origin", "Trials"),
        [_row(found, one) for one in found.points],
        (1, 2, 3, 5),
        open=True,
    )
    finding = f"{count_text(len(found.points), 'shape')}: {origins}."
    return View("points", "Single shapes", finding, _READING, tables=[table])


def failed_view(found: ShapeSet) -> View:
    """Return the view of shapes and ranges that have no kernels."""
    finding = f"{count_text(len(found.failed), 'shape or range has', 'have')} no kernels."
    table = Table("What has no kernels", ("Shapes", "Why"), [*found.failed.items()], open=True)
    return View("failed", "Without kernels", finding, tables=[table])


def _row(found: ShapeSet, one: PointKernel) -> list[str]:
    flops = found.template(one.extents).flops
    known = math.isfinite(one.latency)
    return [
        assigned(one.extents),
        number_text(one.weight),
        latency_text(one.latency),
        number_text(flops / one.latency / 1e9) if known and flops else "\N{EN DASH}",
        one.origin,
        f"{one.trials:,}",
    ]
