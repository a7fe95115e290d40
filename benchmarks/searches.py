"""Judge searches on recorded spaces: without noise of a machine, at a few milliseconds a trial.

Each search runs ``tune`` on a ``SimulatedMeasurer`` with several seeds. A search is a name, with
settings where they differ from the default: ``evolutionary:warm_up=8``,
``explore_exploit:switch_after=16,explore.sweeps=6,exploit.lines=2`` (``explore.`` and ``exploit.``
are those of its two parts; ``explore=random`` explores with another search, ``exploit=random``
exploits with one). Searches from outside
are ``kernel_tuner:genetic_algorithm`` and all other strategies of Kernel Tuner.

* ``P``: the mean over the trials of (random - found) / (random - optimum), where random search
  without replacement is computed; the trials end where it has come 95% of the way from the median
  to the optimum (``schedlang.lab.simulation``). The mean over spaces is below.
* regret at 8, 32, 64 and 256 trials: how much slower the best so far is than the optimum, in
  percent; the geometric mean over spaces of the mean over seeds.
* flips: in how many runs the finals named a program that is more than 2% slower than the best that
  the run had measured.

``--choose`` takes the search that is best on the spaces of all other programs, and judges it on
each (leave one out): no search is judged on a program that it was chosen on.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _bands_plot import draw, points
from _kernel_tuner import run_strategy
from _results import store

import schedlang as sl
from schedlang.lab.recording import line_of
from schedlang.lab.simulation import baseline_of, regret, score
from schedlang.measurement import RecordedSpace, SimulatedMeasurer
from schedlang.search import CoordinateDescent, Evolutionary, ExploreExploit
from schedlang.search.proposal_kernel import Program, extract_features
from schedlang.search.searches import SEARCHES

SPACES = Path(__file__).parent / "recorded"
# A network's layers are in a folder below, for a figure of their own.
RECORDED = sorted(SPACES.glob("*/*.space"))
AT = (8, 32, 64, 256)
OUTSIDE = "kernel_tuner:"
# A winner that is slower than the best measured by more than this was the wrong one.
_WRONG = 1.02


def search_of(text: str) -> Any:
    """Return what ``tune`` takes for a search with settings."""
    name, _, given = text.partition(":")
    if not given:
        return name
    parts: dict[str, dict[str, Any]] = {"": {}, "explore": {}, "exploit": {}}
    for setting in given.split(","):
        key, _, value = setting.partition("=")
        part, _, option = key.rpartition(".")
        parts[part][option] = SEARCHES[value] if value in SEARCHES else ast.literal_eval(value)
    own = parts[""]
    if parts["explore"]:
        own["explore"] = partial(own.get("explore", Evolutionary), **parts["explore"])
    exploit = own.get("exploit", CoordinateDescent)
    if exploit is CoordinateDescent:
        parts["exploit"] = {"start": (), "lines": own.get("sketches", 3)} | parts["exploit"]
    if parts["exploit"] and name == "explore_exploit":
        own["exploit"] = partial(exploit, **parts["exploit"])
    make = ExploreExploit if name == "explore_exploit" else SEARCHES[name]
    return partial(make, **own)


@cache
def recorded(path: Path) -> RecordedSpace:
    """Read a recorded space, once in a process, with the features that earlier runs extracted."""
    found = sl.load_survey(path)
    kept = path.with_suffix(".features.npz")
    if kept.exists():
        with np.load(kept) as stored:
            known = {name: stored[name] for name in stored.files}
        if known.keys() <= found.numbers.keys():
            found.space.known_features.update(known)  # type: ignore[union-attr]
    return found


def extracted(path: Path) -> None:
    """Keep the features of all programs of a space beside it."""
    found = recorded(path)
    known = found.space.known_features
    assert known is not None
    if len(known) == len(found.programs):
        return
    for number, way in found.ways.first().items():
        key = found.programs[number].key
        if key not in known:
            program = Program(sl.Trace(line_of(found.ways, way), found.workload).replay())
            extract_features([program])
            known[key] = program.features
    tables = {key: table for key, table in known.items() if table is not None}
    # Another process may extract or read them at the same time.
    partial_file = path.with_suffix(f".{os.getpid()}.features.npz")
    np.savez_compressed(partial_file, **tables)  # type: ignore[arg-type]
    partial_file.replace(path.with_suffix(".features.npz"))


def judge(path: Path, text: str, seeds: Sequence[int], trials: int) -> dict[str, Any]:
    """Run a search on a space with several seeds."""
    found = recorded(path)
    start = time.perf_counter()
    if text.startswith(OUTSIDE):
        runs, flips = run_strategy(found, text.removeprefix(OUTSIDE), seeds, trials), 0
    else:
        runs, flips = _run(found, text, seeds, trials)
    seconds = time.perf_counter() - start
    baseline = baseline_of(found.latencies)
    return {
        "program": path.stem,
        "space": f"{path.stem} {path.resolve().parent.name}",
        "search": text,
        "score": score(runs, found.latencies, baseline),
        "budget": baseline.budget,
        "regret": {
            str(at): statistics.fmean(min(regret(run, found.optimum, at), 10.0) for run in runs)
            for at in AT
            if at <= trials
        },
        "band": {str(at): band(runs, found.optimum, at) for at in points(trials)},
        "flips": flips / len(runs),
        "trials": statistics.fmean(map(len, runs)),
        "milliseconds": 1e3 * seconds / sum(map(len, runs)),
    }


def simulate(
    found: RecordedSpace,
    search: Any,
    seed: int,
    trials: int,
    make_measurer: Callable[[RecordedSpace, int], SimulatedMeasurer] = SimulatedMeasurer,
) -> sl.TuneResult:
    """Tune on a recorded space."""
    return sl.tune(
        found.workload,
        space=found.space,
        measurer=make_measurer(found, seed),
        search=search,
        trials=trials,
        seed=seed,
        transfer=False,
        progress=False,
    )


def _run(
    found: RecordedSpace, text: str, seeds: Sequence[int], trials: int
) -> tuple[list[list[float]], int]:
    """Return the latencies that each run measured, and how many finals named a wrong winner."""
    runs, flips = [], 0
    for seed in seeds:
        result = simulate(found, search_of(text), seed, trials)
        keys = [one.program_key for one in result.records]
        latencies = [found.program(key).latency for key in keys]
        runs.append(latencies)
        best = result.best.record.program_key
        if best in found.numbers:
            flips += found.program(best).latency > _WRONG * min(latencies)
    return runs, flips


def band(runs: Sequence[Sequence[float]], optimum: float, at: int) -> list[float]:
    """Return the quartiles of the runs' slowdown after some trials, at most 10."""
    slowdowns = [1 + min(regret(run, optimum, at), 9.0) for run in runs]
    return [round(float(one), 4) for one in np.quantile(slowdowns, (0.25, 0.5, 0.75))]


def chosen(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float]]:
    """Return for each space the search that is best on other programs, and its score there."""
    by_space: dict[str, dict[str, float]] = {}
    program = {row["space"]: row["program"] for row in rows}
    for row in rows:
        by_space.setdefault(row["space"], {})[row["search"]] = row["score"]
    found = []
    for space, here in by_space.items():
        others = [scores for name, scores in by_space.items() if program[name] != program[space]]
        best = max(here, key=lambda one: statistics.fmean(scores[one] for scores in others))
        found.append((space, best, here[best]))
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write a line for each search, over all spaces."""
    searches = list(dict.fromkeys(row["search"] for row in rows))
    wide = max(map(len, searches)) + 2
    at = [one for one in AT if str(one) in rows[0]["regret"]]
    lines = [
        f"{'search':{wide}}{'P':>7}{'lowest':>8}"
        + "".join(f"{f'regret {one}':>12}" for one in at)
        + f"{'flips':>7}{'ms/trial':>10}"
    ]
    for search in searches:
        mine = [row for row in rows if row["search"] == search]
        scores = [row["score"] for row in mine]
        regrets = [
            math.exp(statistics.fmean(math.log1p(row["regret"][str(one)]) for row in mine)) - 1
            for one in at
        ]
        lines.append(
            f"{search:{wide}}{statistics.fmean(scores):7.3f}{min(scores):8.3f}"
            + "".join(f"{one:12.1%}" for one in regrets)
            + f"{statistics.fmean(row['flips'] for row in mine):7.0%}"
            + f"{statistics.fmean(row['milliseconds'] for row in mine):10.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--spaces", nargs="+", type=Path, default=RECORDED)
    parser.add_argument("--searches", nargs="+", default=list(SEARCHES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="of the slowdown over trials, by space")
    parser.add_argument("--quick", action="store_true", help="two spaces and seeds, 16 trials")
    args = parser.parse_args()
    if args.quick:
        args.spaces, args.seeds, args.trials = args.spaces[:2], 2, 16
    if not args.spaces:
        raise SystemExit(f"no recorded spaces in {SPACES}: schedlang survey makes them")
    if args.choose and len({path.stem for path in args.spaces}) < 2:
        raise SystemExit("--choose leaves out one program after the other: give two or more")
    seeds = range(args.seeds)
    if not all(text.startswith(OUTSIDE) for text in args.searches):
        with ProcessPoolExecutor(args.processes) as pool:
            list(pool.map(extracted, args.spaces))
    with ProcessPoolExecutor(args.processes) as pool:
        started = [
            pool.submit(judge, path, text, seeds, args.trials)
            for path in args.spaces
            for text in args.searches
        ]
        rows = []
        for one in started:
            rows.append(one.result())
            row = rows[-1]
            print(f"{row['space']:24}{row['search']:40}{row['score']:7.3f}", flush=True)
    print(f"\n{table(rows)}")
    if args.choose:
        print("\nchosen on the other spaces:")
        best = chosen(rows)
        for space, search, found in best:
            print(f"{space:24}{search:40}{found:7.3f}")
        mean = statistics.fmean(found for *_, found in best)
        print(f"{'':64}{mean:7.3f}")
    if args.json is not None:
        store({"seeds": args.seeds, "rows": rows}, args.json)
    if args.picture is not None:
        draw(rows, args.picture)


if __name__ == "__main__":
    main()
