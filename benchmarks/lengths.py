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
from pathlib import Path

from length_rows.row import SIDES, Plan, measure
from length_rows.sizes import QUICK, SIZES, SMALL, sizes_of
from length_rows.table import figures, table
from network_rows.command import Keep, add_options, go_on

TRIALS, QUICK_TRIALS = 3000, 60


def plan_of(name: str, given: argparse.Namespace, folder: Path) -> Plan:
    """What to do with a model."""
    sizes = given.sizes or (QUICK.get(name, sizes_of(name)) if given.quick else sizes_of(name))
    return Plan(
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}, {QUICK_TRIALS} trials")
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of a network's own")
    parser.add_argument("--trials", type=int, help=f"of all sizes of a model; {TRIALS} by default")
    add_options(parser, (*SIZES, *SMALL), SIDES, rounds=5, round_seconds=0.5)
    given = parser.parse_args()
    given.networks = given.networks or list(QUICK if given.quick else SIZES)
    given.trials = given.trials or (QUICK_TRIALS if given.quick else TRIALS)

    def measured(name: str, folder: Path, keep: Keep) -> None:
        measure(name, plan_of(name, given, folder), keep)

    go_on(given, measured, figures, table)


if __name__ == "__main__":
    main()
