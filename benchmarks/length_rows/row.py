"""One model: tuned at all sizes together, compiled, and timed beside its peers at each."""

from __future__ import annotations

import statistics
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network_rows.command import Keep
from network_rows.row import Started, tune
from network_rows.side import Side, SideError, SideProcess, Spec
from network_rows.turns import errors, time_in_turns

from length_rows import sides

OURS, EAGER, DYNAMIC, FROZEN = "ours", "eager", "dynamic", "dynamic, frozen"
SIDES: Mapping[str, Callable[[Spec], Side]] = {
    OURS: sides.ours,
    EAGER: sides.eager,
    DYNAMIC: sides.dynamic,
    FROZEN: sides.dynamic_frozen,
}
# At most until a side is ready, and for its first call at a size, which may compile.
_READY_SECONDS, _FIRST_SECONDS = 3600.0, 900.0


@dataclass(frozen=True)
class Plan:
    """What to do with each model.

    Attributes
    ----------
    sizes: of the model.
    trials, seconds: of ``tune_network`` for all sizes; ``seconds`` is None without a limit.
    sides: those that are timed.
    rounds, round_seconds: of timing in turns, at each size.
    threads: of every side.
    folder: holds the databases.
    """

    sizes: tuple[int, ...]
    trials: int
    seconds: float | None
    sides: Sequence[str]
    rounds: int
    round_seconds: float
    threads: int
    folder: Path
    seed: int = 0


def measure(name: str, plan: Plan, keep: Keep) -> None:
    """Measure a model. ``keep`` is given the row as far as it is, after each step."""
    database = str(plan.folder / f"{name}-sizes.db")
    spec = Spec(name, plan.threads, {"database": database, "sizes": plan.sizes})
    row: dict[str, Any] = {"network": name, "complete": False, "failed": {}, "sizes": {}}
    try:
        row |= _tune(name, plan, spec)
    except Exception as error:
        traceback.print_exc()
        row["failed"][OURS] = f"{type(error).__name__}: {error}".splitlines()[0]
    keep(row)
    with Started() as started:
        for side in plan.sides:
            if side not in row["failed"]:
                failure = started.start(side, SIDES[side], spec, _READY_SECONDS)
                if failure:
                    row["failed"][side] = failure
        # All sizes are called once before any is timed: torch compiles again for some.
        for _ in range(2):
            for size in plan.sizes:
                for side in list(started.sides):
                    _choose(side, size, started, row)
        for size in plan.sizes:
            row["sizes"][str(size)] = _at_size(size, plan, started, row)
            keep(row)
        row["facts"] = {side.name: side.facts for side in started.sides}
    row["complete"] = True
    keep(row)


def _at_size(size: int, plan: Plan, started: Started, row: dict[str, Any]) -> dict[str, Any]:
    """Return latencies in seconds, and errors against torch eager, at one size."""
    for side in list(started.sides):
        _choose(side, size, started, row)
    outputs = {side.name: side.outputs for side in started.sides}
    expected = outputs.pop(EAGER, None)
    found: dict[str, Any] = {"errors": {}}
    if expected is not None:
        found["errors"] = {name: errors(given, expected) for name, given in outputs.items()}
    medians, failed = time_in_turns(started.sides, plan.rounds, plan.round_seconds)
    row["failed"] |= failed
    for side in [side for side in started.sides if side.name in failed]:
        side.close()
        started.sides.remove(side)
    found["rounds"] = medians
    found["latency"] = {side: statistics.median(times) for side, times in medians.items()}
    return found


def _choose(side: SideProcess, size: int, started: Started, row: dict[str, Any]) -> None:
    """Set the size of a side; one that fails takes no further part."""
    try:
        side.choose(size, _FIRST_SECONDS)
    except SideError as error:
        row["failed"][side.name] = f"at size {size}: {error}"
        side.close()
        started.sides.remove(side)


def _tune(name: str, plan: Plan, spec: Spec) -> dict[str, Any]:
    networks, result, found = tune(lambda: sides.imported(name, plan.sizes), plan, spec)
    return found | {"sum of tasks": dict(zip(networks.sizes, result.latencies, strict=True))}
