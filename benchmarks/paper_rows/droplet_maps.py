"""Droplet Search, Figure 10: the path of the descent over nine planes of real latencies.

A product of matrices in five orders of its loops, and a 3 x 3 convolution of one image in the four
orders that have the filter outside; the decisions are the tiles of the two innermost loops, 0 (not
tiled), 8, ..., 128. All 289 programs of a plane are measured, one thread each. The descent then
runs on the recording, once, from the origin: its steps and its significance are those of
``CoordinateDescent``, which also takes promising steps together and speculates.

The paper multiplies 1000 x 700 by 700 x 800, whose slow programs take a second here and run a dozen
times each. Ours has 0.3 of these extents, which takes 40 times less: its three matrices fit the
second cache together, but not the first. The convolution has the paper's 1024 x 1024.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from searches import simulate

import schedlang as sl
from paper_rows.descent import ONCE, Costs, path_of
from paper_rows.figure import Figure, Row, Settings, Unit, database_of
from paper_rows.planes import draw_planes, plane_row, show_planes
from schedlang.measurement import RecordedSpace
from schedlang.search import CoordinateDescent

MATMUL = (300, 240, 210)
SIDE, FILTER = 1024, 3
SIZES = (0, 136, 8)
_QUICK_SIZES = (0, 136, 32)
ORDERS: Mapping[str, Sequence[str]] = {
    "matmul": ("ijk", "ikj", "jki", "kij", "kji"),
    "conv": ("klij", "klji", "lkij", "lkji"),
}
_QUICK_ORDERS: Mapping[str, Sequence[str]] = {"matmul": ("kij",), "conv": ("klij",)}


@cache
def matmul() -> sl.Workload:
    """Return the product, with the loops i, j, k."""
    return sl.workloads.matmul(*MATMUL)


@cache
def conv() -> sl.Workload:
    """Return the convolution: i and j go over the image, k and l over the filter."""
    side = SIDE - FILTER + 1
    return sl.workloads.from_script(
        f"""
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer(({SIDE}, {SIDE}), "float32"),
    F: T.Buffer(({FILTER}, {FILTER}), "float32"),
    C: T.Buffer(({side}, {side}), "float32"),
):
    T.func_attr({{"tirx.noalias": True}})
    for i, j, k, l in T.grid({side}, {side}, {FILTER}, {FILTER}):
        with T.sblock("C"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi + vk, vj + vl] * F[vk, vl]
""",
        name="conv",
    )


KERNELS: Mapping[str, Callable[[], sl.Workload]] = {"matmul": matmul, "conv": conv}


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV, *, order: str, sizes: tuple[int, int, int]) -> None:
    """for i, j, k: C  ->  C = 0; for j0, k0: for i: for j1, k1: C += ..."""
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    loops = dict(zip(sorted(order), sch.get_loops(block), strict=True))
    tiles, inside = [], []
    for name in order[-2:]:
        size = sch.sample_int_range(*sizes, name=f"tile {name}")
        # Not tiled: one tile of all iterations.
        all_of_them = sch.extent(loops[name]) * (1 - sl.minimum(size, 1))
        outer, inner = sch.split(loops[name], [None, sl.maximum(size, all_of_them)])
        tiles.append(outer)
        inside.append(inner)
    sch.reorder(*tiles, *(loops[name] for name in order[:-2]), *inside)


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each kernel and order of its loops."""
    orders = _QUICK_ORDERS if settings.quick else ORDERS
    return [{"kernel": kernel, "order": order} for kernel, some in orders.items() for order in some]


def surveyed(unit: Unit, settings: Settings) -> RecordedSpace:
    """Measure all programs of a plane; an interrupted survey goes on."""
    workload = KERNELS[unit["kernel"]]()
    sizes = _QUICK_SIZES if settings.quick else SIZES
    space = sl.Space([tile(order=unit["order"], sizes=sizes)])
    return sl.survey(workload, space=space, database=database_of(unit, settings), progress=False)


def latencies(found: RecordedSpace) -> Costs:
    """Return the latency of each point whose program works, in seconds."""
    programs = ((way.decisions, found.programs[way.program]) for way in found.ways)
    return {decisions: one.latency for decisions, one in programs if one.samples}


def noise(found: RecordedSpace) -> float:
    """Return the median relative standard deviation of a program's samples."""
    several = [one.samples for one in found.programs if len(one.samples) > 1]
    return statistics.median(
        statistics.stdev(samples) / statistics.fmean(samples) for samples in several
    )


def job(unit: Unit, settings: Settings) -> Row:
    """Measure a plane, and descend on the recording."""
    found = surveyed(unit, settings)
    costs = latencies(found)
    search = CoordinateDescent(found.space, found.workload, **ONCE)
    result = simulate(found, search, seed=0, trials=len(found.programs))
    row = plane_row(costs, path_of(search), len(result.records))
    return row | {"noise": noise(found), "about": dict(found.about)}


def _named(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    return [(f"{row['unit']['kernel']} {row['unit']['order']}", row) for row in rows]


def show(rows: Sequence[Row]) -> None:
    """Print a line for each plane, and how noisy the latencies are."""
    show_planes(_named(rows))
    lowest, highest = (pick(row["noise"] for row in rows) for pick in (min, max))
    print(f"relative standard deviation of a program's samples: {lowest:.2%} to {highest:.2%}")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the planes, with the path of the descent on each."""
    axes = ("size of the outer tile", "size of the innermost tile")
    draw_planes(_named(rows), axes, "latency", path)


FIGURES = (
    Figure(
        "droplet-maps",
        "Droplet Search, Figure 10, on one machine and smaller matrices",
        units,
        job,
        show,
        draw,
    ),
)
