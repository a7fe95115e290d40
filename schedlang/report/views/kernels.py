"""The kernels of a range against the shapes of it that were measured."""

from __future__ import annotations

import math

from schedlang.plot.kernels import kernels_chart, loss_text, ordered, shared, short_text
from schedlang.printed import count_text
from schedlang.report.datasets import Datasets
from schedlang.report.numbers import latency_text
from schedlang.report.views.view import Chart, Table, View, spec_of
from schedlang.shapes.cover import mean_of
from schedlang.shapes.ranges import RangeKernels

_READING = (
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
    finding = _finding(found)
    chart = Chart(
        key,
        spec_of(kernels_chart(found, key, data)),
        f"Heat map of the losses of {found.range} with each kernel. {finding}",
    )
    columns = ("Shape", "Kernel", "Latency", "Best known", "Loss", "Left out")
    table = Table(f"Measured shapes of {found.range}", columns, _rows(found), (1, 2, 3, 4, 5))
    title = f"Shapes and kernels of {found.range}"
    return View(key, title, finding, _READING, charts=[chart], tables=[table])


def _finding(found: RangeKernels) -> str:
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


def _rows(found: RangeKernels) -> list[list[str]]:
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
