"""Shapes of a range against its kernels: what each shape loses with each kernel."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import altair as alt

from schedlang.measurement import describe_latency
from schedlang.plot.style import Source, inline, styled
from schedlang.printed import significant
from schedlang.shapes import ShapeSet
from schedlang.shapes.extents import Extents
from schedlang.shapes.ranges import Kernel, RangeKernels
from schedlang.workloads.construct import assigned

_CELL_HEIGHT, _NARROWEST, _WIDEST, _ROOM = 26, 64, 112, 640
"""Of a cell in pixels, and the width that all cells should take."""
_LETTERS, _LINE = 15, 13
"""Of a column's title: letters of the longest line, and pixels from one line to the next."""
_TIMES = " \N{MULTIPLICATION SIGN} "
_DARK = 0.25
"""Losses above this have dark cells, on which text is white."""
_FULL = 1.0
"""The loss of the darkest cells."""


def kernels(found: ShapeSet, place: int = 0) -> alt.LayerChart:
    """Return a heat map of what the measured shapes of a range lose with each kernel.

    Kernels for one shape alone are left out. A loss is the time over the least that is known for
    the shape. The framed cell is that of the kernel that the shape takes; hatched cells are kernels
    that failed.

    Parameters
    ----------
    found: what ``tune_shapes`` returns.
    place: of the range in ``found.ranges``.

    ValueError where the set has no such range.
    """
    if not 0 <= place < len(found.ranges):
        raise ValueError(f"place={place}: the set has {len(found.ranges)} ranges with kernels")
    one = found.ranges[place]
    return styled(kernels_chart(one, "cells", inline), f"{found.template.name}: {one.range}")


def loss_text(ratio: float) -> str:
    """Return a loss of a time over the least known: ``3.1%``, ``35%``, ``2.4×``, ``failed``."""
    if math.isnan(ratio):
        return "\N{EN DASH}"
    if math.isinf(ratio):
        return "failed"
    if ratio >= 1 + _FULL:
        return f"{ratio:,.1f}\N{MULTIPLICATION SIGN}"
    return f"{ratio - 1:.0%}" if ratio >= 1.0995 or ratio < 1.0005 else f"{ratio - 1:.1%}"


def short_text(found: RangeKernels, extents: Extents) -> str:
    """Return the extents that vary in a range as people write them."""
    return assigned({name: extents[name] for name in found.range.varying})


def shared(found: RangeKernels) -> list[Kernel]:
    """Return the kernels for many shapes, which have latencies at the samples; they come first."""
    return [kernel for kernel in found.kernels if not kernel.alone]


def ordered(found: RangeKernels) -> list[int]:
    """Return the places of the samples from the smallest extents to the largest."""
    return sorted(range(len(found.samples)), key=lambda k: tuple(found.samples[k].values()))


def kernels_chart(found: RangeKernels, name: str, source: Source) -> alt.LayerChart:
    """Return the chart without its style; ``name`` is that of its data."""
    columns = [_title(k, one.origin) for k, one in enumerate(shared(found))]
    places = ordered(found)
    varying = found.range.varying
    shapes = [_TIMES.join(str(found.samples[place][name]) for name in varying) for place in places]
    lines = max(column.count("\n") for column in columns)

    def rows() -> list[dict[str, Any]]:
        return [
            _cell(found, place, kernel) | {"shape": shape, "kernel": column}
            for place, shape in zip(places, shapes, strict=True)
            for kernel, column in enumerate(columns)
        ]

    cells = alt.Chart(source(name, rows)).encode(
        x=alt.X(
            "kernel:N",
            title=None,
            scale=alt.Scale(domain=columns, paddingInner=0.05),
            axis=alt.Axis(
                orient="top",
                labelAngle=0,
                labelExpr="split(datum.label, '\\n')",
                labelLimit=_WIDEST,
                # Lines go down from the first one, which has room for all of them.
                labelPadding=6 + _LINE * lines,
                domain=False,
                ticks=False,
                grid=False,
            ),
        ),
        y=alt.Y(
            "shape:N",
            title=_TIMES.join(varying),
            scale=alt.Scale(domain=shapes, paddingInner=0.12),
            axis=alt.Axis(labelLimit=220, domain=False, ticks=False, grid=False),
        ),
        tooltip=[
            alt.Tooltip("extents:N", title="Shape"),
            alt.Tooltip("origin:N", title="Kernel"),
            alt.Tooltip("latency:N", title="Latency"),
            alt.Tooltip("best:N", title="Best known"),
            alt.Tooltip("text:N", title="Loss"),
            alt.Tooltip("taken:N", title="Taken"),
        ],
    )
    squares = (
        cells.transform_filter("isValid(datum.loss)")
        .mark_rect(cornerRadius=2)
        .encode(
            color=alt.Color(
                "loss:Q",
                title="Loss",
                scale=alt.Scale(
                    type="sqrt", domain=[0, _FULL], scheme="viridis", reverse=True, clamp=True
                ),
                legend=alt.Legend(
                    labelExpr=f"(datum.value < {_FULL} ? '' : '≥ ') + format(datum.value, '.0%')",
                    values=[0, 0.05, 0.15, 0.5, _FULL],
                    gradientLength=160,
                ),
            )
        )
    )
    failed = cells.transform_filter("!isValid(datum.loss)").mark_rect(
        cornerRadius=2, color=_hatched()
    )
    taken = cells.transform_filter("datum.taken == 'yes'")
    frame: dict[str, Any] = {"filled": False, "cornerRadius": 2}
    texts = cells.mark_text(fontSize=11).encode(
        text="text:N",
        color=alt.condition(
            f"isValid(datum.loss) && datum.loss > {_DARK}", alt.value("white"), alt.value("black")
        ),
    )
    chart = alt.LayerChart(
        layer=[
            squares,
            failed,
            taken.mark_rect(stroke="black", strokeWidth=4, **frame),
            taken.mark_rect(stroke="white", strokeWidth=1.6, **frame),
            texts,
        ]
    )
    width = max(_NARROWEST, min(_WIDEST, _ROOM // len(columns)))
    return chart.properties(width=alt.Step(width), height=alt.Step(_CELL_HEIGHT))


def _title(number: int, origin: str) -> str:
    """Return the title of a column, in lines: the kernel's number, and where it comes from."""
    return "\n".join([f"kernel {number}", *textwrap.wrap(origin, _LETTERS)])


def _cell(found: RangeKernels, place: int, kernel: int) -> dict[str, Any]:
    latency, best = float(found.latencies[place, kernel]), float(found.best[place])
    ratio = latency / best
    return {
        "extents": assigned(found.samples[place]),
        "origin": f"{kernel}: {found.kernels[kernel].origin}",
        "loss": significant(ratio - 1) if math.isfinite(ratio) else None,
        "text": loss_text(ratio),
        "latency": describe_latency(latency) if math.isfinite(latency) else "\N{EN DASH}",
        "best": describe_latency(best),
        "taken": "yes" if found.tree.find(found.samples[place]) == kernel else "no",
    }


def _hatched(stripes: int = 9) -> dict[str, Any]:
    """Return a fill of slanted stripes: Vega has no patterns, but gradients with sharp stops."""
    stops = []
    for stripe in range(stripes):
        color = "#b9c1cc" if stripe % 2 else "#dde2e9"
        ends = stripe / stripes, (stripe + 1) / stripes
        stops += [{"offset": end, "color": color} for end in ends]
    return {"gradient": "linear", "x1": 0, "y1": 0, "x2": 1, "y2": 1, "stops": stops}
