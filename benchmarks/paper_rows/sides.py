"""Sides that really tune the same program: their seconds, their curves, and winners in turns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from _bands_plot import points
from _race import hold_finals

import schedlang as sl
from paper_rows.descent import ONCE
from paper_rows.figure import Row, Settings, Unit, database_of
from schedlang.search import CoordinateDescent, ExploreExploit, MakeStrategy

TO_THE_END = 2000
"""More trials than one descent takes: it ends where no neighbour is surely faster."""


@dataclass(frozen=True)
class Side:
    """A search, its trials, its limit of time in seconds, and its space, by default the target's.

    Where the search ends by itself, trials and seconds are the most that it may take.
    """

    search: str | MakeStrategy
    trials: int
    seconds: float | None = None
    space: sl.Space | None = None


def from_origin() -> MakeStrategy:
    """Return Droplet Search: one descent from the origin, and no other start."""
    return partial(CoordinateDescent, **ONCE)


def descent_after(explored: int) -> MakeStrategy:
    """Return DPAnsor's search: one descent from the best of these programs, and no other start."""
    return exploiting(partial(CoordinateDescent, start=(), **ONCE), explored)


def exploiting(search: MakeStrategy, explored: int) -> MakeStrategy:
    """Return exploration of ``explored`` programs, which another search goes on from."""
    return partial(ExploreExploit, exploit=search, switch_after=explored, sketches=1)


def raced(
    workload: sl.Workload, sides: Mapping[str, Side], unit: Unit, settings: Settings
) -> dict[str, Row]:
    """Tune with each side, in a database of its own; then time the winners in turns.

    A side's ``latency`` is from these turns, in seconds; its ``curve`` has the best latency so far
    as the run measured it, by the number of trials.
    """
    target = sl.Target("cpu")
    found: dict[str, Row] = {}
    winners: dict[str, list[Any]] = {}
    for name, side in sides.items():
        database = database_of(unit | {"side": name}, settings)
        with sl.Database(database) as kept:
            result = sl.tune(
                workload,
                target,
                space=side.space,
                search=side.search,
                trials=side.trials,
                seconds=side.seconds,
                seed=unit.get("seed", 0),
                database=kept,
                progress=False,
            )
        best = [one.latency if one.ok else float("inf") for one in result.records]
        so_far = list(itertools.accumulate(best, min))
        found[name] = {
            "trials": len(best),
            "seconds": result.seconds,
            "curve": {str(at): so_far[at - 1] for at in points(len(so_far))} if so_far else {},
        }
        winners[name] = [result.best.schedule.mod]
    standing = hold_finals(workload, target, winners)
    for name, row in found.items():
        row["latency"] = standing.latencies[name]
    return found


def total(rows: Sequence[Row], side: str, what: str) -> float:
    """Return the sum over rows, each as often as its unit occurs in the network."""
    weighted = what == "latency"
    return sum(row["sides"][side][what] * (row["unit"]["times"] if weighted else 1) for row in rows)
