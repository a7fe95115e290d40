"""Time sides in turns, and compare their outputs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from network_rows.side import SideError, SideProcess
from schedlang.measurement.contest import hold_contest

# A call that takes longer is timed once: it is no contender.
SLOW_SECONDS = 10.0
_LIMIT_SECONDS = 300.0


def time_in_turns(
    sides: Sequence[SideProcess], rounds: int, seconds: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the median seconds of a call in each round, and why sides failed, by side."""
    by_name = {side.name: side for side in sides}
    slow = {name for name, side in by_name.items() if side.first_seconds > SLOW_SECONDS}
    failed: dict[str, str] = {}

    def sample(name: str) -> float | None:
        try:
            return statistics.median(by_name[name].samples(seconds, _LIMIT_SECONDS))
        except SideError as error:
            failed[name] = str(error)
            return None

    timed = hold_contest(
        [name for name in by_name if name not in slow],
        lambda order: {name: sample(name) for name in order},
        rounds,
    )
    medians = timed | {name: [by_name[name].first_seconds] for name in slow}
    return {name: medians[name] for name in by_name if name in medians}, failed


def errors(outputs: Sequence[Any], expected: Sequence[Any]) -> list[dict[str, float]]:
    """Return the largest difference of each output, also over the largest magnitude expected.

    Infinity where shapes differ or one is not finite.
    """
    found = []
    for output, right in zip(outputs, expected, strict=True):
        largest = float(np.abs(right).max()) if right.size else 0.0
        difference = np.inf
        if output.shape == right.shape and np.isfinite(output).all():
            difference = float(np.abs(output.astype("float64") - right).max(initial=0.0))
        relative = difference / largest if largest else difference
        found.append({"absolute": difference, "relative": relative})
    return found
