"""Compare how fast searches find fast kernels: schedlang's searches and MetaSchedule's own.

Every search of schedlang runs ``tune(workload, search=..., trials=...)`` on the default space, all
with the same number of trials. MetaSchedule tunes the same workload with its defaults: its space,
evolutionary search, cost model, builder and runner. Wall time includes the start of the workers,
verification and finals. ``explore_exploit`` depends on the total number of trials, and the default,
``auto``, is timed with both, so the smaller number is a separate run of these; for the other
searches it is a prefix of the larger run.

Each run nominates its best three programs. One worker verifies them and times them alternately;
these latencies are compared. Curves show the latencies that each run measured while it searched.

Figures (geometric means over workloads of the median over seeds; above 1 is better):

* ``quality_64_vs_256``: MetaSchedule's latency after 256 trials over the default's after 64
  (target 1.0), and ``time_ratio``, the wall times of these two runs (target 8);
* ``quality_256_vs_256``: both after 256 (target 1.3), and ``worst_256``, the lowest (target 0.95).

``--json`` writes after each run, and ``--resume`` continues from that file. Needs the ``bench``
extra.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _contest import WORKLOADS, show
from _metaschedule_tuning import tune_metaschedule
from _race import Run, hold_finals, tune_schedlang
from _race_figures import DEFAULT, PEER, figures, print_figures, print_workload
from _results import store

import schedlang as sl
from schedlang.search import SEARCHES

RACERS = (
    DEFAULT,
    PEER,
    "random",
    "evolutionary",
    "coordinate_descent",
    "explore_exploit",
    "tree_search",
)
# Each total needs a separate run: for its wall time, or as the first trials depend on it.
_PLANNERS = (DEFAULT, "explore_exploit")
_AUTO = "coordinate_descent"


@dataclass
class Race:
    """What was run and found, and the file that keeps it.

    Attributes
    ----------
    trials: the smaller and the larger number.
    rows: one for each run; finals: one for each workload and seed.
    batch: candidates per round of schedlang's searches; ``None`` takes their default.
    path: JSON file that is written after each run; ``None`` writes no file.
    """

    names: Sequence[str]
    seeds: Sequence[int]
    searches: Sequence[str]
    trials: tuple[int, int]
    path: Path | None
    batch: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    finals: list[dict[str, Any]] = field(default_factory=list)
    target: sl.Target = field(default_factory=lambda: sl.Target("cpu"))

    def run(self) -> None:
        """All workloads and seeds, one after the other; prints each workload's table."""
        for name, seed in itertools.product(self.names, self.seeds):
            if not any(one["workload"] == name and one["seed"] == seed for one in self.finals):
                self._run_unit(name, seed)
            if seed == self.seeds[-1]:
                print_workload(name, self.searches, self.trials, self.rows, self.finals)
        self._save()  # what was resumed may be all there is

    def _run_unit(self, name: str, seed: int) -> None:
        workload = sl.workloads.get(name)
        runs: dict[tuple[str, int], Run] = {}
        for search, trials in plan(self.searches, self.trials):
            if search == PEER:
                run = tune_metaschedule(workload, self.target, trials, seed)
            else:
                run = tune_schedlang(workload, search, trials, seed, self.batch)
            runs[search, trials] = run
            self.rows.append(self._row(name, search, seed, trials, run))
            self._save()
        self.finals.append(self._hold_finals(workload, name, seed, runs))
        self._save()

    def _row(self, name: str, search: str, seed: int, trials: int, run: Run) -> dict[str, Any]:
        row = {
            "workload": name,
            "search": search,
            "seed": seed,
            "trials": trials,
            "measured": len(run.trials),
            "seconds": run.seconds,
            "seconds_after": {str(n): run.seconds_after(n) for n in self._counts(search, trials)},
            "failures": dict(run.failures()),
            # A wrong result is a bug in a module: print what it takes to reproduce it.
            "wrong": [trial.wrong for trial in run.trials if trial.wrong],
            "split": dict(run.split),
            "error": run.error,
            "curve": run.curve(),
        }
        best = row["curve"][-1][2] if row["curve"] else None
        failed = "".join(f", {n} {status}" for status, n in run.failures().items())
        print(
            f"{name:4} seed {seed} {search:18} {trials:4} trials {run.seconds:7.1f} s, "
            f"{show(best, 0, 1, 1e6)} us{failed} {run.error}",
            flush=True,
        )
        return row

    def _counts(self, search: str, trials: int) -> tuple[int, ...]:
        """Return the numbers of trials that a run gives figures for."""
        return (trials,) if search in _PLANNERS else self.trials

    def _hold_finals(
        self, workload: sl.Workload, name: str, seed: int, runs: dict[tuple[str, int], Run]
    ) -> dict[str, Any]:
        entries = {
            (search, count): run.fastest(count)
            for (search, trials), run in runs.items()
            for count in self._counts(search, trials)
        }
        standing = hold_finals(workload, self.target, entries)
        latencies: dict[str, dict[str, float]] = {search: {} for search, _ in runs}
        for (search, count), latency in standing.latencies.items():
            latencies[search][str(count)] = latency
        failures = {
            f"{search} {count}": dict(failed)
            for (search, count), failed in standing.failures.items()
        }
        return {"workload": name, "seed": seed, "latency": latencies, "failures": failures}

    def summary(self) -> dict[str, Any]:
        """What the JSON file holds."""
        return {
            **figures(self.searches, self.trials, self.rows, self.finals),
            "target": self.target.key,
            DEFAULT: _AUTO,
            "trials": list(self.trials),
            "batch": self.batch,
            "seeds": list(self.seeds),
            "finals": self.finals,
            "rows": self.rows,
        }

    def _save(self) -> None:
        if self.path is not None:
            store(self.summary(), self.path)

    def resume(self) -> None:
        """Restore the workloads and seeds whose finals the file holds.

        SystemExit if the file has other settings, or lacks a search.
        """
        if self.path is None or not self.path.exists():
            return
        known = json.loads(self.path.read_text())
        settings = (known["target"], known["trials"], known.get("batch"))
        if settings != (self.target.key, list(self.trials), self.batch):
            raise SystemExit(f"{self.path} is of another machine, or of other trials or batches")
        self.finals = known["finals"]
        for one in self.finals:
            if lacking := set(self.searches) - set(one["latency"]):
                raise SystemExit(
                    f"{self.path} has no {', '.join(sorted(lacking))} for {one['workload']} with "
                    f"seed {one['seed']}: leave that out of --searches, or take another file"
                )
        done = {(one["workload"], one["seed"]) for one in self.finals}
        self.rows += [one for one in known["rows"] if (one["workload"], one["seed"]) in done]


def plan(searches: Sequence[str], trials: tuple[int, int]) -> list[tuple[str, int]]:
    """Return the runs of a workload: the main figures' first, then the others."""
    first = [search for search in (DEFAULT, PEER) if search in searches]
    others = [search for search in searches if search not in first]
    return [
        (search, count)
        for search in (*first, *others)
        for count in (trials if search in _PLANNERS else trials[1:])
    ]


def as_racers(searches: Sequence[str]) -> list[str]:
    """Return each search once; SystemExit for an unknown name."""
    known = [DEFAULT, *SEARCHES, PEER]
    if unknown := [search for search in searches if search not in known]:
        raise SystemExit(f"no search {', '.join(unknown)}; known: {', '.join(known)}")
    return list(dict.fromkeys(searches))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one workload, 4 and 8 trials")
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="all by default")
    parser.add_argument("--searches", nargs="+", metavar="NAME", default=list(RACERS))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--trials", type=int, nargs=2, metavar=("SMALL", "LARGE"))
    parser.add_argument("--batch", type=int, help="candidates a round; 16 by default")
    parser.add_argument("--json", type=Path, help="write the figures to this file, after each run")
    parser.add_argument("--resume", action="store_true", help="continue from the JSON file")
    parser.add_argument("--plot", type=Path, help="draw the curves to this PNG file")
    arguments = parser.parse_args()
    searches = as_racers(arguments.searches)
    if DEFAULT in searches:
        print(f"{DEFAULT} is {_AUTO}")
    race = Race(
        arguments.workloads or (["GMM"] if arguments.quick else WORKLOADS),
        arguments.seeds or ([0] if arguments.quick else [0, 1, 2]),
        searches,
        tuple(arguments.trials or ((4, 8) if arguments.quick else (64, 256))),
        arguments.json,
        arguments.batch,
    )
    if arguments.resume:
        race.resume()
    race.run()
    print_figures(race.summary())
    if arguments.plot:
        from _race_plot import draw

        for path in draw(race.rows, race.finals, race.trials, arguments.plot):
            print(f"drawn: {path}")


if __name__ == "__main__":
    main()
