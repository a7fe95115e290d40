"""Time sides in turns, and compare their outputs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from network_rows.side import SideError, SideProcess

# A call that takes longer is timed once: it is no contender.
SLOW_SECONDS = 10.0
_LIMIT_SECONDS = 300.0


def time_in_turns(
    sides: Sequence[SideProcess], rounds: int, seconds: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the median seconds of a call in each round, and what failed, by side.

    Rounds go forward and backward, so that no side is always first.
    """
    medians: dict[str, list[float]] = {side.name: [] for side in sides}
    failed: dict[str, str] = {}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            if side.name in failed or (number and side.first_seconds > SLOW_SECONDS):
                continue
            if side.first_seconds > SLOW_SECONDS:
                medians[side.name].append(side.first_seconds)
                continue
            try:
                samples = side.samples(seconds, _LIMIT_SECONDS)
            except SideError as error:
                failed[side.name] = str(error)
                continue
            medians[side.name].append(statistics.median(samples))
    return {name: times for name, times in medians.items() if times}, failed


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
