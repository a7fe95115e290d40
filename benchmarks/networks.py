"""Whole networks: imported from torch, tuned, compiled, and timed beside torch and TVM.

For each network, with random weights and batch 1: seconds of ``import_network``, its calls and
tasks, seconds of ``tune_network``, and the latency of a call

* ``unscheduled``: every function as it is, serial;
* ``default``: ``compile_network`` without a database, so with schedules that nothing measured;
* ``tuned``: ``compile_network`` with the database of the tuning;
* ``backend``: ``torch.compile(backend="schedlang")`` with that database;
* ``C library``: the tuned network as ``export_c`` writes it, called from Python;
* ``eager``: torch as it comes (with channels last too: in the figures only);
* ``compiled``: ``torch.compile`` with max-autotune and frozen weights;
* ``tune_relax``: TVM's MetaSchedule, with as many trials for MobileNet-v2 and two layers of BERT;
  elsewhere 100 trials, for its rate.

Each side runs in a process of its own, with the same number of threads. Rounds go forward and
backward through the sides; a round gives the median of its calls, and the median of the rounds
counts. Outputs are compared with those of torch eager. A side that fails says why in its cell, and
the others go on.

Targets, on two quiet cores, with 1,000 trials: geometric mean over eager 1.5 for convolutional
networks and 1.1 for the others, over compiled 1.15 and 1.0, none below 1.0 of eager; 1.2 times as
fast as ``tune_relax`` at equal trials in a fifth of its time.

``--sides tune_relax`` compares seconds of tuning alone.

``--json`` is written after each network, and the same command goes on
where it was stopped; ``--databases`` keeps the records as well.

Needs torch, torchvision, transformers, and a C++ compiler for ``torch.compile``; xgboost for TVM.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from network_rows.command import Keep, add_options, go_on
from network_rows.models import NETWORKS, QUICK
from network_rows.row import SIDES, Plan, measure
from network_rows.table import figures, table

TRIALS, QUICK_TRIALS = 1000, 200
RATE_TRIALS = 100
EQUAL_TRIALS = ("mobilenet-v2", "bert-2")
_PEER_SECONDS, _QUICK_PEER_SECONDS = 5400.0, 240.0


def plan_of(name: str, given: argparse.Namespace, folder: Path) -> Plan:
    """What to do with a network."""
    peer = given.trials if name in EQUAL_TRIALS else min(RATE_TRIALS, given.trials)
    return Plan(
        given.trials,
        given.seconds,
        given.sides,
        peer if given.peer_trials is None else given.peer_trials,
        name in EQUAL_TRIALS,
        given.peer_seconds,
        given.rounds,
        given.round_seconds,
        given.threads,
        folder,
        given.seed,
    )


def measure_timed(name: str, plan: Plan, keep: Keep) -> None:
    """Measure a network, and note how long that took."""
    started = time.monotonic()
    row = measure(name, plan, keep)
    keep(row | {"row seconds": round(time.monotonic() - started, 1)})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}, {QUICK_TRIALS} trials")
    parser.add_argument("--trials", type=int, help=f"{TRIALS} by default")
    parser.add_argument("--peer-trials", type=int, help="of tune_relax; 0 leaves it out")
    parser.add_argument("--peer-seconds", type=float, help="of its tuning a network, at most")
    add_options(parser, NETWORKS, SIDES, rounds=7, round_seconds=0.7)
    given = parser.parse_args()
    given.networks = given.networks or list(QUICK if given.quick else NETWORKS)
    given.trials = given.trials or (QUICK_TRIALS if given.quick else TRIALS)
    if given.peer_seconds is None:
        given.peer_seconds = _QUICK_PEER_SECONDS if given.quick else _PEER_SECONDS

    def measured(name: str, folder: Path, keep: Keep) -> None:
        measure_timed(name, plan_of(name, given, folder), keep)

    go_on(given, measured, figures, table)


if __name__ == "__main__":
    main()
