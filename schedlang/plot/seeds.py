"""Runs of one kernel with several seeds as one curve: their median, and the band of all of them."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from schedlang.database.history import RunHistory
from schedlang.database.trials import TrialRow, gains
from schedlang.plot.sources import histories_of
from schedlang.plot.style import Unit, significant

Over = Literal["trials", "seconds"]
Seeds = Mapping[str, Sequence[RunHistory]]
"""Runs of one kernel by the name of their curve."""


def seeds_of(given: object) -> Seeds | None:
    """Return runs by the name of their curve; None unless a dict has a list of runs.

    ValueError where runs of one curve are of several kernels.
    """
    if not isinstance(given, Mapping):
        return None
    if not any(isinstance(one, list | tuple) for one in given.values()):
        return None
    found = {}
    for name, one in given.items():
        several = one if isinstance(one, list | tuple) else [one]
        runs = list(histories_of(list(several)).values())
        kernels = {run.run.workload_key: run.name for run in runs}
        if len(kernels) > 1:
            raise ValueError(
                f"{str(name)!r} has runs of {len(kernels)} kernels: {', '.join(kernels.values())}; "
                "give runs of one kernel, by their seeds"
            )
        found[str(name)] = runs
    if len(found) < len(given):
        raise ValueError(f"{list(given)}: two curves have the same name as text")
    return found


def median_steps(seeds: Seeds, over: Over, unit: Unit) -> list[dict[str, Any]]:
    """Return where a median, or an end of its band, changes, and where each curve ends.

    A curve begins where all of its runs have a latency. A run that ended keeps its best latency to
    the end of the longest. ValueError for a run without a latency.
    """
    found: list[dict[str, Any]] = []
    for name, runs in seeds.items():
        curves = [_curve(run.rows, over) for run in runs]
        for run, (places, _) in zip(runs, curves, strict=True):
            if not places:
                raise ValueError(f"{name}: no candidate of seed {run.run.seed} has a latency")
        begin = max(places[0] for places, _ in curves)
        end = max(_place(row, over) for run in runs for row in run.rows if row.number is not None)
        inside = {at for places, _ in curves for at in places if at >= begin}
        median: float | None = None
        for at in sorted({*inside, begin, end}):
            now = [latencies[bisect_right(places, at) - 1] for places, latencies in curves]
            before, median = median, statistics.median(now)
            found.append(
                {
                    "run": name,
                    "trial" if over == "trials" else "seconds": significant(at),
                    "latency": significant(median * unit.scale),
                    "low": significant(min(now) * unit.scale),
                    "high": significant(max(now) * unit.scale),
                    "runs": len(runs),
                    "uncertain": 0,
                    "gain": median != before,
                }
            )
    return found


def _curve(rows: Sequence[TrialRow], over: Over) -> tuple[list[float], list[float]]:
    """Return where the best latency of a run fell, and to what."""
    best = gains(rows)
    return [_place(one.row, over) for one in best], [one.latency for one in best]


def _place(row: TrialRow, over: Over) -> float:
    if over == "seconds":
        return row.seconds
    assert row.number is not None
    return row.number
