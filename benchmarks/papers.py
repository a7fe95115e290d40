"""Make the figures of the papers that schedlang implements, on our own system.

``python benchmarks/papers.py storm-budgets`` prints a table, and writes a JSON file and a picture
to ``--folder``; ``--list`` names all figures, and what they show. Without a name it makes all of
them: ``--quick`` in ten minutes. Interrupted, it goes on where it was. docs/papers.md sets our
figures beside the papers' own.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from paper_rows import FIGURES
from paper_rows.figure import Figure, Kept, Settings
from searches import RECORDED


def make(figure: Figure, settings: Settings) -> None:
    """Make what is missing of a figure; print its table, and draw it."""
    kept = Kept(figure, settings)
    units = list(figure.units(settings))
    if not units:
        print("nothing is recorded for it")
        return
    missing = kept.missing(units)
    if figure.simulated and settings.processes > 1:
        with ProcessPoolExecutor(settings.processes) as pool:
            running = {pool.submit(figure.job, unit, settings): unit for unit in missing}
            for one in as_completed(running):
                kept.keep(running[one], one.result())
    else:
        for unit in missing:
            kept.keep(unit, figure.job(unit, settings))
    rows = kept.in_order(units)
    figure.show(rows)
    if figure.draw is not None:
        path = kept.path.with_suffix(".png")
        figure.draw(rows, path)
        print(f"drawn: {path}")


def main() -> None:
    """Make figures; print their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE")
    parser.add_argument("--list", action="store_true", help="name the figures, and end")
    parser.add_argument("--folder", type=Path, default=Path("papers"), help="of what is made")
    parser.add_argument("--spaces", nargs="+", type=Path, default=RECORDED)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="few cases")
    args = parser.parse_args()
    if unknown := set(args.figures) - FIGURES.keys():
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    if args.list:
        for name, figure in FIGURES.items():
            print(f"{name:24} {figure.source}")
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(args.quick, args.seeds, args.spaces, args.processes, args.folder)
    for name in args.figures or FIGURES:
        print(f"\n== {name}: {FIGURES[name].source}", flush=True)
        make(FIGURES[name], settings)


if __name__ == "__main__":
    main()
