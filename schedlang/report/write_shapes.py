"""Write the report of a set of shapes: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from schedlang.report.datasets import Datasets
from schedlang.report.page import checked_path, render
from schedlang.report.shape_facts import shape_facts, shape_tiles
from schedlang.report.vega import VegaScript
from schedlang.report.views.choice import choice_view
from schedlang.report.views.kernels import kernels_view
from schedlang.report.views.points import failed_view, points_view
from schedlang.shapes import ShapeSet


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
