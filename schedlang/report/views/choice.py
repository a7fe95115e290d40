"""Which kernel a shape of a range takes: regions, and the comparisons that find them."""

from __future__ import annotations

from schedlang.plot.kernels import loss_text
from schedlang.printed import count_text
from schedlang.report.views.view import Table, View
from schedlang.shapes import ShapeSet
from schedlang.shapes.extents import Range
from schedlang.shapes.ranges import RangeKernels

_READING = (
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
            _rows(one),
            (1, 2, 3, 5),
        )
        for one in found.ranges
    ]
    total = sum(len([*one.regions()]) for one in found.ranges)
    of = "one range" if len(found.ranges) == 1 else count_text(len(found.ranges), "range")
    finding = f"{count_text(total, 'region')} of {of}."
    more = {"regions": tables, "code": found.as_python()}
    return View("choice", "Choice of kernels", finding, _READING, more=more)


def _rows(found: RangeKernels) -> list[list[str]]:
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
