"""Make the pictures of reports, under docs/images/: ``python docs/picture_report.py``.

It tunes a convolution twice, a matrix product, and one of many shapes, which takes some minutes,
and takes pictures of the reports and of the comparison in Chromium. ``--database`` takes the runs
of a file instead, and ``--shapes`` a saved set.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import schedlang as sl  # noqa: E402
from schedlang.database import history, open_database  # noqa: E402
from tests.chromium import Chromium  # noqa: E402

IMAGES = ROOT / "docs" / "images"
VIEWS = ("convergence", "time", "importance", "decisions", "finals", "winner", "trials")
WIDTH, PHONE = 1200, 400
LARGEST = 250_000
"""Bytes of a picture."""


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """for i, j, k: C  ->  parallel i0: for j0, k0, i1, j1, k1: unrolled i2: vectorized j2: C"""
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, n=3, name="rows"))
    j0, j1, j2 = sch.split(j, sch.sample_perfect_tile(j, n=3, name="columns"))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2, name="depth"))
    sch.reorder(i0, j0, k0, i1, j1, k1, i2, j2)
    sch.unroll(i2)
    sch.vectorize(j2)
    # A sum cannot be parallel: such traces are rejected.
    place = sch.choose("parallel", ("rows", "columns", "depth"))
    sch.parallel({"rows": i0, "columns": j0, "depth": k0}[place])
    sch.decompose_reduction(block, k0)


def tune_examples(database: Path) -> None:
    """Tune a convolution with two searches, and a matrix product in a space that rejects much."""
    convolution, product = sl.workloads.C2D(), sl.workloads.matmul(512, 512, 512)
    tuned = partial(sl.tune, database=database, remeasure=True)
    tuned(convolution, trials=256, notes="the default space", tags=["baseline"])
    alone = partial(tuned, search="evolutionary", transfer=False)
    alone(convolution, trials=128, notes="evolutionary search alone")
    alone(product, trials=100, space=sl.Space([tile]))


def product(rows: int) -> sl.Workload:
    """A matrix product of many shapes."""
    return sl.workloads.matmul(rows, 64, 128)


def tuned_shapes(saved: Path | None) -> sl.ShapeSet:
    """Return the set of a file, or tune one."""
    if saved is not None:
        return sl.ShapeSet.load(saved, product)
    return sl.tune_shapes(product, [{"rows": range(1, 513)}, {"rows": 1000}], trials=64)


def shapes_picture(found: sl.ShapeSet) -> bytes:
    """The kernels of the range."""
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        path = sl.report.write_shapes(found, Path(folder) / "shapes.html")
        browser.open(path, width=WIDTH, height=1000)
        return browser.picture("#kernels-0")


def report_pictures(database: Path) -> Iterator[tuple[str, bytes]]:
    """Names and pictures: the whole, its top, each view, a phone, and a comparison."""
    with open_database(database, read_only=True) as opened:
        first, second, third = (history(opened, run.id) for run in opened.runs())
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        path = sl.report.write(first, Path(folder) / "run.html")
        for dark in (False, True):
            shade = "dark" if dark else "light"
            browser.open(path, width=WIDTH, height=1000, dark=dark)
            yield f"report-{shade}", browser.screen()
            browser.resize(WIDTH, 1000, 0.4)
            yield f"report-whole-{shade}", browser.picture()
        browser.open(path, width=WIDTH, height=1000)
        browser.evaluate("document.querySelector('#trials .open').click()")
        for view in VIEWS:
            yield f"report-{view}", browser.picture(f"#{view}")
        browser.open(path, width=PHONE, height=860)
        yield "report-phone", browser.screen()
        rejecting = sl.report.write(third, Path(folder) / "rejecting.html")
        browser.open(rejecting, width=WIDTH, height=1000)
        browser.evaluate("document.querySelector('#rejections > details:last-of-type').open = true")
        yield "report-rejections", browser.picture("#rejections")
        both = sl.report.write_comparison([first, second], Path(folder) / "both.html")
        browser.open(both, width=WIDTH, height=1000)
        yield "comparison", browser.picture()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", type=Path, help="a file with these three runs")
    parser.add_argument("--shapes", type=Path, help="a saved set of the product's shapes")
    arguments = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database = arguments.database or Path(folder) / "tune.db"
        if arguments.database is None:
            tune_examples(database)
        pictures = [*report_pictures(database)]
        pictures.append(("report-shapes", shapes_picture(tuned_shapes(arguments.shapes))))
        for name, picture in pictures:
            (IMAGES / f"{name}.png").write_bytes(picture)
            print(f"{name}.png: {len(picture) / 1000:.0f} kB")
            if len(picture) > LARGEST:
                sys.exit(f"{name}.png is larger than {LARGEST / 1000:.0f} kB")


if __name__ == "__main__":
    main()
