"""One executable for many sizes, beside ``torch.compile(dynamic=True)``.

BERT of two layers at 20 lengths from 16 to 256, odd ones among them, and MobileNet-v2 at batches
1 to 16. ``tune_network`` tunes all sizes of a model together, and ``compile_network`` makes one
executable of them. At each size, a call of it is timed beside

* ``eager``: torch as it comes;
* ``dynamic``: ``torch.compile(dynamic=True)``;
* ``dynamic, frozen``: the same with frozen weights.

Each side runs in a process of its own, with the same number of threads, and has been called at all
sizes before any is timed. Rounds go forward and backward through the sides; a round gives the
median of its calls, and the median of the rounds counts. Outputs are compared with those of eager
at every size.

Target: geometric mean over ``dynamic`` 1.2, all sizes verified.

``--json`` is written after each size; the same command goes on with the next model where it was
stopped, and ``--databases`` keeps the records as well.

Needs torch, torchvision, transformers, and a C++ compiler for ``torch.compile``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from length_rows.row import SIDES, Plan, measure
from length_rows.sizes import QUICK, SIZES, SMALL, sizes_of
from length_rows.table import figures, table
from networks import save

import schedlang as sl

TRIALS, QUICK_TRIALS = 3000, 60


def run(given: argparse.Namespace, document: dict[str, Any], folder: Path) -> None:
    """Measure the models that the document does not have, and print their tables."""
    rows: list[dict[str, Any]] = document.setdefault("rows", [])
    done = {row["network"] for row in rows if row["complete"]}
    for name in (name for name in given.networks if name not in done):
        sizes = given.sizes or (QUICK.get(name, sizes_of(name)) if given.quick else sizes_of(name))
        plan = Plan(
            tuple(sizes),
            given.trials,
            given.seconds,
            given.sides,
            given.rounds,
            given.round_seconds,
            given.threads,
            folder,
            given.seed,
        )
        others = [row for row in document["rows"] if row["network"] != name]

        def keep(row: dict[str, Any], others: list[dict[str, Any]] = others) -> None:
            document["rows"] = [*others, row]
            document["figures"] = figures(document["rows"])
            save(document, given.json)

        measure(name, plan, keep)
    print(table(document["rows"]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = (*SIZES, *SMALL)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}, {QUICK_TRIALS} trials")
    parser.add_argument(
        "--networks", nargs="+", choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of a network's own")
    parser.add_argument("--trials", type=int, help=f"of all sizes of a model; {TRIALS} by default")
    parser.add_argument("--seconds", type=float, help="of tuning a model, at most")
    parser.add_argument("--threads", type=int, default=sl.Target("cpu").cores)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=[*SIDES], help="to be timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round-seconds", type=float, default=0.5, help="of each side, at a size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--databases", type=Path, help="keep the records in this folder")
    parser.add_argument("--json", type=Path, help="write the figures to this file, and go on")
    given = parser.parse_args()
    given.networks = given.networks or list(QUICK if given.quick else SIZES)
    given.trials = given.trials or (QUICK_TRIALS if given.quick else TRIALS)
    document: dict[str, Any] = {}
    if given.json is not None and given.json.exists():
        document = json.loads(given.json.read_text(encoding="utf-8"))
    target = sl.Target("cpu", cores=given.threads)
    document |= {"target": target.key, "software": target.provenance(), "trials": given.trials}
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.databases or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        run(given, document, folder)


if __name__ == "__main__":
    main()
