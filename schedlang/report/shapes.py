"""The report of a set of shapes, as one HTML file."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np

from schedlang.plot.kernels import kernels_chart, loss_text, ordered, shared, short_text
from schedlang.printed import count_text, duration_text, latency_text, number_text
from schedlang.report.facts import FactTile
from schedlang.report.page import Datasets, VegaScript, checked_path, render
from schedlang.report.view import Chart, Table, View, spec_of
from schedlang.shapes import PointKernel, ShapeSet
from schedlang.shapes.dispatch import mean_of
from schedlang.shapes.extents import Range
from schedlang.shapes.ranges import RangeKernels
from schedlang.workloads.construct import assigned


def write_shapes(
    found: ShapeSet, path: str | os.PathLike[str], *, title: str | None = None
) -> Path:
    """Write what ``tune_shapes`` found as one HTML file, and return its path.

    It shows which kernel each shape takes and what that loses against the best known program, the
    choice of kernels as Python, and the programs of single shapes.

    Parameters
    ----------
    found: what ``tune_shapes`` or ``ShapeSet.load`` returns.
    path: of the file, which is replaced if there is one.
    title: heading; by default the template's name.

    TypeError for anything but a set; FileError where the file cannot be written.
    """
    if not isinstance(found, ShapeSet):
        raise TypeError(
            f"a ShapeSet is needed, which tune_shapes returns, not {type(found).__name__}"
        )
    place = checked_path(path)
    with VegaScript() as vega:
        data = Datasets()
        views = [kernels_view(one, number, data) for number, one in enumerate(found.ranges)]
        views += [choice_view(found)] if found.ranges else []
        views += [points_view(found)] if found.points else []
        views += [failed_view(found)] if found.failed else []
        return render(
            "shapes.html.j2",
            place,
            vega,
            {"datasets": data.packed(), "unit": ""},
            title or found.template.name,
            views,
            tiles=shape_tiles(found),
            facts=shape_facts(found),
        )


# -- The numbers that matter, and what was tuned --------------------------------------------------

_UNKNOWN = "\N{EN DASH}"


def shape_tiles(found: ShapeSet) -> list[FactTile]:
    """Return the numbers that matter, the most important first."""
    return [_shapes(found), _kernels(found), _loss(found), _left_out(found), *_cost(found)]


def _shapes(found: ShapeSet) -> FactTile:
    parts = [f"{len(found.points):,} single" if found.points else ""]
    parts += [count_text(len(found.ranges), "range") if found.ranges else ""]
    parts += [f"{len(found.failed)} failed" if found.failed else ""]
    total = len(found.points) + sum(one.range.size for one in found.ranges)
    note = ", ".join(filter(None, parts))
    return FactTile("Shapes", f"{total:,}", note, tone="warn" if found.failed else "")


def _kernels(found: ShapeSet) -> FactTile:
    of_ranges = sum(len(one.kernels) for one in found.ranges)
    many = sum(len(shared(one)) for one in found.ranges)
    parts = [f"{many} for many shapes"] if many else []
    parts += [f"{of_ranges - many} for one of a range"] if of_ranges > many else []
    parts += [f"{count} {origin}" for origin, count in _origins(found).items()]
    return FactTile("Kernels", f"{len(found.points) + of_ranges:,}", ", ".join(parts))


def _origins(found: ShapeSet) -> Counter[str]:
    return Counter(one.origin for one in found.points)


def _loss(found: ShapeSet) -> FactTile:
    if not found.ranges:
        return FactTile("Loss of ranges", _UNKNOWN, "there is no range")
    losses = [loss for one in found.ranges for loss in one.losses]
    return FactTile(
        "Loss of ranges",
        loss_text(_mean(losses)),
        f"at worst {loss_text(max(losses))}, over the best known programs",
    )


def _left_out(found: ShapeSet) -> FactTile:
    if not found.ranges:
        return FactTile("Left out", _UNKNOWN, "there is no range")
    losses = [loss for one in found.ranges for loss in one.regret]
    note = f"at worst {loss_text(max(losses))}: what shapes lose that are not measured"
    return FactTile("Left out", loss_text(_mean(losses)), note)


def _mean(losses: list[float]) -> float:
    return mean_of(np.array(losses)) if all(map(math.isfinite, losses)) else math.inf


def _cost(found: ShapeSet) -> list[FactTile]:
    # A set that was read from a file does not know them.
    if not found.measured:
        return [FactTile(name, _UNKNOWN, "read from a file") for name in ("Measurements", "Time")]
    verified = sum(len(one.verified) for one in found.ranges)
    note = f"ranges verified at {count_text(verified, 'shape')}" if verified else "all verified"
    ended = "interrupted by Ctrl-C" if found.interrupted else "wall time of the call"
    return [
        FactTile("Measurements", f"{found.measured:,}", note),
        FactTile("Time", duration_text(found.seconds), ended, tone="warn" * found.interrupted),
    ]


def shape_facts(found: ShapeSet) -> list[tuple[str, str]]:
    """Return what was tuned, by name."""
    facts = [
        ("Template", f"{found.template.name}({', '.join(found.names)})"),
        ("Target", found.target.key),
        ("Serves", found.served),
        ("Ended", "interrupted: kernels of ranges are not made" if found.interrupted else ""),
    ]
    return [(name, value) for name, value in facts if value]


# -- Which kernel a shape of a range takes: regions, and the comparisons that find them -----------

_READING_CHOICE = (
    "A tree of comparisons over the extents says which kernel a shape takes. The compiled function "
    "of a range contains the same comparisons. The loss of a region is the geometric mean over the "
    "measured shapes in it."
)


def choice_view(found: ShapeSet) -> View:
    """Return the view; ``more`` has the regions, and the comparisons of all ranges as Python."""
    tables = [
        Table(
            f"Regions of {one.range}",
            ("Region", "Shapes", "Measured", "Kernel", "From", "Loss"),
            _choice_rows(one),
            (1, 2, 3, 5),
        )
        for one in found.ranges
    ]
    total = sum(len([*one.regions()]) for one in found.ranges)
    of = "one range" if len(found.ranges) == 1 else count_text(len(found.ranges), "range")
    finding = f"{count_text(total, 'region')} of {of}."
    more = {"regions": tables, "code": found.as_python()}
    return View("choice", "Choice of kernels", finding, _READING_CHOICE, more=more)


def _choice_rows(found: RangeKernels) -> list[list[str]]:
    """Return a row for each region, and one for all kernels of one shape."""
    rows = []
    alone = [bounds for bounds, kernel, _ in found.regions() if kernel.alone]
    if alone:
        [name] = found.range.varying  # only then shapes have kernels of their own
        values = [bounds[name][0] for bounds in alone]
        where = str(Range({name: (min(values), max(values))}))
        origin = f"{count_text(len(alone), 'kernel')} for one shape each"
        rows.append([where, f"{len(alone):,}", "", "", origin, ""])
    numbers = {id(kernel): number for number, kernel in enumerate(found.kernels)}
    for bounds, kernel, loss in found.regions():
        if kernel.alone:
            continue
        region = Range(bounds)
        varying = {name: bounds[name] for name in found.range.varying}
        rows.append(
            [
                str(Range(varying)),
                f"{region.size:,}",
                str(sum(one in region for one in found.samples)),
                str(numbers[id(kernel)]),
                kernel.origin,
                loss_text(loss),
            ]
        )
    return rows


# -- The kernels of a range against the shapes of it that were measured ---------------------------

_READING_KERNELS = (
    "A row is a shape that was measured, a column a kernel that works for any extents of the "
    "range; the smallest shapes may have kernels of their own, which are not shown. A cell has the "
    "loss: how much more time the kernel takes than the fastest program that is known for the "
    "shape, which may be one that was tuned for this shape alone. The framed cell is that of the "
    "kernel that the shape takes. Hatched cells are kernels that failed. Left out is the loss that "
    "the shape would have had if it had not been measured: the choice is made again without it. It "
    "estimates the loss of the shapes between the measured ones."
)


def kernels_view(found: RangeKernels, number: int, data: Datasets) -> View:
    """Return the view of the range with this number in its set."""
    key = f"kernels-{number}"
    finding = _kernels_finding(found)
    chart = Chart(
        key,
        spec_of(kernels_chart(found, key, data)),
        f"Heat map of the losses of {found.range} with each kernel. {finding}",
    )
    columns = ("Shape", "Kernel", "Latency", "Best known", "Loss", "Left out")
    table = Table(
        f"Measured shapes of {found.range}", columns, _kernel_rows(found), (1, 2, 3, 4, 5)
    )
    title = f"Shapes and kernels of {found.range}"
    return View(key, title, finding, _READING_KERNELS, charts=[chart], tables=[table])


def _kernels_finding(found: RangeKernels) -> str:
    worst = int(found.losses.argmax())
    alone = len(found.kernels) - len(shared(found))
    text = (
        f"{count_text(len(shared(found)), 'kernel')} for "
        f"{count_text(found.range.size - alone, 'shape')}"
    )
    if alone:
        text += f", and {count_text(alone, 'kernel', 'kernels')} for one shape each"
    text += f". The measured shapes lose {loss_text(found.loss)} in the geometric mean"
    if found.losses[worst] > 1.0005:
        at = short_text(found, found.samples[worst])
        text += f", at most {loss_text(float(found.losses[worst]))} ({at})"
    left_out = mean_of(found.regret)
    if math.isfinite(left_out):
        most = loss_text(float(found.regret.max()))
        text += f"; left out of measuring, they lose {loss_text(left_out)}, at most {most}"
    else:
        wrong = int((found.regret == math.inf).sum())
        text += f"; left out of measuring, {wrong} would take a kernel that fails"
    failed = sum(not math.isfinite(one) for one in found.latencies.ravel())
    if failed:
        text += f". Kernels failed in {count_text(failed, 'cell')}"
    return f"{text}. Results were compared at {count_text(len(found.verified), 'shape')}."


def _kernel_rows(found: RangeKernels) -> list[list[str]]:
    rows = []
    for place in ordered(found):
        extents = found.samples[place]
        kernel = found.tree.find(extents)
        rows.append(
            [
                short_text(found, extents),
                str(kernel),
                latency_text(float(found.latencies[place, kernel])),
                latency_text(float(found.best[place])),
                loss_text(float(found.losses[place])),
                loss_text(float(found.regret[place])),
            ]
        )
    return rows


# -- Single shapes, each with a program of its own; and what has none -----------------------------

_READING_POINTS = (
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
    return View("points", "Single shapes", finding, _READING_POINTS, tables=[table])


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
