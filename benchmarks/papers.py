"""Make the figures of the papers that schedlang implements, on our own system.

``python benchmarks/papers.py storm-budgets`` prints a table, and writes JSON with ``--json``;
without a name it makes all:

* ``storm-budgets``: Explore as a Storm, Figures 10, 11, 17 and 18, simulated on recorded spaces: K
  explored programs and one descent, against 10,000 trials of exploring alone. Ratios are the other
  side's figure over that of K and the descent: above 1 supports the paper.
* ``storm-exploiters``: Figure 14 there: what takes the place of the descent after the same
  exploration. Ratios are the other exploiter's figure over the descent's.

docs/papers.md sets them beside the papers' own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from paper_rows import storm
from paper_rows.made_with import made_with
from searches import SPACES, extracted

_QUICK = (1, 25)


def budgets(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Print the table of storm-budgets; return its rows."""
    explored = _QUICK if args.quick else storm.EXPLORED
    rows = simulated(partial(storm.budgets, explored=explored), args)
    wide = max(len(row["space"]) for row in rows) + 2
    for title, what in (
        ("latency after 10,000 trials / after K and a descent", "latency"),
        ("seconds of 10,000 trials / of K and a descent", "seconds"),
    ):
        print(f"\n{title}\n{'K':{wide}}" + "".join(f"{number:>8}" for number in explored))
        for name, mine in by_space(rows).items():
            found = [storm.ratios(mine, "alone", str(number), what) for number in explored]
            print(f"{name:{wide}}" + "".join(f"{one:8.3f}" for one in found))
        found = [storm.ratios(rows, "alone", str(number), what) for number in explored]
        print(f"{'geometric mean':{wide}}" + "".join(f"{one:8.3f}" for one in found))
    print(f"\n{'trials of the descent':{wide}}")
    for name, mine in [*by_space(rows).items(), ("mean", rows)]:
        found = [
            # None where a space has fewer programs than are to be explored.
            statistics.fmean(max(row[str(number)]["trials"] - number, 0) for row in mine)
            for number in explored
        ]
        print(f"{name:{wide}}" + "".join(f"{one:8.1f}" for one in found))
    return rows


def exploiters(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Print the table of storm-exploiters; return its rows."""
    rows = simulated(storm.exploiters, args)
    wide = max(len(row["space"]) for row in rows) + 2
    print(f"\n{'':{wide}}{'latency / the descents':^24}{'seconds / the descents':^24}")
    print(f"{'':{wide}}" + 2 * "".join(f"{name:>8}" for name in storm.EXPLOITERS))
    for name, mine in [*by_space(rows).items(), ("geometric mean", rows)]:
        found = [
            storm.ratios(mine, other, "descent", what)
            for what in ("latency", "seconds")
            for other in storm.EXPLOITERS
        ]
        print(f"{name:{wide}}" + "".join(f"{one:8.3f}" for one in found))
    return rows


FIGURES = {"storm-budgets": budgets, "storm-exploiters": exploiters}


def simulated(job: Any, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Run ``job(path, seed)`` for each recorded space and seed."""
    paths = args.spaces[:2] if args.quick else args.spaces
    seeds = range(2 if args.quick else args.seeds)
    with ProcessPoolExecutor(args.processes) as pool:
        list(pool.map(extracted, paths))
    # Others: what a process has read of one space is not needed for the next.
    with ProcessPoolExecutor(args.processes) as pool:
        pairs = list(itertools.product(paths, seeds))
        found = list(pool.map(job, *zip(*pairs, strict=True)))
    return [
        {"space": f"{path.stem} {path.resolve().parent.name}", "seed": seed} | row
        for (path, seed), row in zip(pairs, found, strict=True)
    ]


def by_space(rows: Sequence[dict[str, Any]]) -> Mapping[str, list[dict[str, Any]]]:
    """Return the rows of each space."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["space"], []).append(row)
    return found


def main() -> None:
    """Make figures; print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("figures", nargs="*", default=list(FIGURES), metavar="FIGURE")
    parser.add_argument("--spaces", nargs="+", type=Path, default=sorted(SPACES.rglob("*.space")))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="two spaces and seeds, two budgets")
    args = parser.parse_args()
    if unknown := set(args.figures) - FIGURES.keys():
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    made: dict[str, Any] = {"made_with": made_with()}
    for name in args.figures:
        print(f"== {name}")
        made[name] = FIGURES[name](args)
        if args.json is not None:
            args.json.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
