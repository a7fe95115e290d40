"""Searches on recorded spaces: units, runs, and means over spaces and seeds."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from searches import SPACES, extracted, recorded, simulate

from paper_rows.figure import Row, Settings, Unit, grouped
from schedlang.measurement import RecordedSpace, SimulatedMeasurer

_QUICK_SPACES, _QUICK_SEEDS = ("GMM", "NRM"), 2


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each recorded space and seed; a few where it is to be quick."""
    seeds = min(settings.seeds, _QUICK_SEEDS) if settings.quick else settings.seeds
    paths = [
        path
        for path in settings.spaces
        if not settings.quick or len(settings.spaces) == 1 or path.stem in _QUICK_SPACES
    ]
    return [
        {"space": str(Path(path.resolve().parent.name) / path.stem), "seed": seed}
        for path, seed in itertools.product(paths, range(seeds))
    ]


def path_of(unit: Unit, settings: Settings) -> Path:
    """Return the file of a unit's recorded space, with the features of its programs beside it."""
    known = {path.resolve() for path in (*settings.spaces, *SPACES.rglob("*.space"))}
    (path,) = (one for one in known if one.with_suffix("").match(unit["space"]))
    extracted(path)
    return path


def tuned(
    path: Path,
    seed: int,
    search: Any,
    trials: int,
    make_measurer: Callable[[RecordedSpace, int], SimulatedMeasurer] = SimulatedMeasurer,
) -> dict[str, float]:
    """Tune on a recorded space; return what was found, with how many trials, in which time."""
    found = recorded(path)
    result = simulate(found, search, seed, trials, make_measurer)
    latencies = [found.program(one.program_key).latency for one in result.records]
    return {
        "latency": min(latencies),
        "over optimum": min(latencies) / found.optimum,
        "trials": len(latencies),
        "seconds": result.seconds,
    }


def ratios(rows: Sequence[Mapping[str, Any]], of: str, to: str, what: str) -> float:
    """Return the geometric mean of one side's figure over another's."""
    return statistics.geometric_mean(row[of][what] / row[to][what] for row in rows)


def draw_spaces(
    panel: Any,
    points: Sequence[float],
    rows: Sequence[Row],
    values: Callable[[Sequence[Row]], Sequence[float]],
    handles: dict[str, Any],
    mean: tuple[str, str],
    **style: Any,
) -> None:
    """Draw ``values`` of rows over ``points``: spaces thin, all together thick.

    ``mean`` is the label and the colour of the thick line, ``style`` its further style.
    """
    label, colour = mean
    for mine in grouped(rows, "space").values():
        (handles["a recorded space"],) = panel.plot(points, values(mine), "#bbbbbb", linewidth=0.9)
    (handles[label],) = panel.plot(points, values(rows), color=colour, linewidth=2, **style)


def print_ratios(
    rows: Sequence[Row], columns: Mapping[str, tuple[str, str]], what: str, title: str
) -> None:
    """Print a line for each space, and the geometric mean of all; a column is (of, to)."""
    wide = max(len(row["unit"]["space"]) for row in rows) + 2
    print(f"\n{title}\n{'':{wide}}" + "".join(f"{name:>8}" for name in columns))
    for name, mine in [*grouped(rows, "space").items(), ("geometric mean", rows)]:
        found = [ratios(mine, of, to, what) for of, to in columns.values()]
        print(f"{name:{wide}}" + "".join(f"{one:8.3f}" for one in found))
