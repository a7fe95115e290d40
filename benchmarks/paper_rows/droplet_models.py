"""Droplet Search, Figure 15: the descent on eight analytic models of tile sizes.

The models are those of Renganarayana and Rajopadhye's Table II for a tile of ``h`` x ``w`` of an
``n`` x ``n`` array, with the figure's constants and domain. The figure prints two of them
imprecisely. ``C/h*w`` of WMC and ``(2h+w)/h*w`` of TSS are quotients by ``h*w``, as in ESS; the
``1/2`` of MHCf is ``1/w``, as in all models of its kind. ``(h-w)/C`` of TLI stands as printed: its
coefficient of ``w`` is negative, so it is not one of the positive models that the paper takes all
eight for.

``CoordinateDescent`` searches a real space, a copy of an ``n`` x ``n`` array in tiles. It is told
the model's value as the latency, without noise. Latencies are positive: values of a model that has
others are raised by a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import schedlang as sl
from paper_rows.descent import ONCE, Costs, Point, decisions, path_of
from paper_rows.figure import Figure, Row, Settings, Unit
from paper_rows.planes import draw_planes, plane_row, show_planes
from schedlang.search import CoordinateDescent, Outcome

SIDE, CACHE, LINE = 100, 32, 32
SIZES = (1, 100, 5)
_QUICK_SIZES = (1, 100, 20)
_BATCH = 16

Model = Callable[[float, float], float]

MODELS: Mapping[str, Model] = {
    "ESS": lambda h, w: CACHE / (h * w),
    "LRW": lambda h, w: 1 / h + 1 / w + (2 * h + w) / CACHE,
    "TSS": lambda h, w: (2 * h + w) / (h * w),
    "EUC": lambda h, w: 1 / h + 1 / w,
    "MOON": lambda h, w: 1 / h + 1 / w + (h + w) / CACHE,
    "TLI": lambda h, w: 1 / h + 1 / w + (h - w) / CACHE + h * w / CACHE**2,
    "WMC": lambda h, w: CACHE / (h * w),
    "MHCf": lambda h, w: (1 / h + 1 / w) * (1 / SIDE + 1 / LINE) + 2 / (h * w),
}


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV, *, sizes: tuple[int, int, int] = SIZES) -> None:
    """for i, j: B  ->  for i0, j0: for i1 in h: for j1 in w: B"""
    i, j = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, sch.sample_int_range(*sizes, name="h")])
    j0, j1 = sch.split(j, [None, sch.sample_int_range(*sizes, name="w")])
    sch.reorder(i0, j0, i1, j1)


@cache
def copy_of_array() -> sl.Workload:
    """Return the copy of an array: any program of two loops would do."""
    return sl.workloads.from_script(
        f"""
@T.prim_func(s_tir=True)
def main(A: T.Buffer(({SIDE}, {SIDE}), "float32"), B: T.Buffer(({SIDE}, {SIDE}), "float32")):
    for i, j in T.grid({SIDE}, {SIDE}):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
""",
        name="copy",
    )


def descend(costs: Costs, sizes: tuple[int, int, int]) -> tuple[list[Point], int]:
    """Descend on a surface; return the path, and the number of points that were asked for."""
    search = CoordinateDescent(sl.Space([tile(sizes=sizes)]), copy_of_array(), **ONCE)
    while search.finished is None:
        told = []
        for one in search.ask(_BATCH):
            cost = costs[decisions(one.trace)]
            told.append(Outcome(one.id, sl.Measurement(one.id, sl.Status.OK, (cost,))))
        search.tell(told)
    return path_of(search), search.proposals.count


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each model."""
    sizes = _QUICK_SIZES if settings.quick else SIZES
    return [{"model": name, "sizes": list(sizes)} for name in MODELS]


def job(unit: Unit, settings: Settings) -> Row:
    """Compute a surface and descend on it."""
    first, end, step = unit["sizes"]
    values = range(first, end, step)
    model = MODELS[unit["model"]]
    costs = {(h, w): model(h, w) for h in values for w in values}
    lowest = min(costs.values())
    if lowest <= 0:
        costs = {point: cost - lowest + 1 for point, cost in costs.items()}
    return plane_row(costs, *descend(costs, (first, end, step)))


def show(rows: Sequence[Row]) -> None:
    """Print a line for each model."""
    show_planes([(row["unit"]["model"], row) for row in rows])


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the surfaces from above, with the path of the descent on each."""
    named = [(row["unit"]["model"], row) for row in rows]
    draw_planes(named, ("height of the tile h", "width of the tile w"), "cost", path)


FIGURES = (
    Figure(
        "droplet-models",
        "Droplet Search, Figure 15, on the same eight models",
        units,
        job,
        show,
        draw,
        simulated=True,
    ),
)
