"""How good a search is on a recorded space, against random search computed exactly.

After Willemsen, Schoonhoven, Filipovic, Torring, van Nieuwpoort, van Werkhoven, "A methodology for
comparing optimization algorithms for auto-tuning" (FGCS 159, 2024), sections 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlang.errors import RecordingError

Curve = NDArray[np.float64]
"""The lowest latency so far, in seconds, after 1, 2, ... trials."""

CUT_OFF = 0.95


@dataclass(frozen=True)
class Baseline:
    """Random search without replacement on a space, as an expectation.

    Attributes
    ----------
    curve: expected lowest latency after each number of trials.
    optimum, median: of the programs that work, in seconds.
    budget: trials after which random search has come ``CUT_OFF`` of the way from the median to the
        optimum.
    """

    curve: Curve
    optimum: float
    median: float
    budget: int


def baseline_of(latencies: Sequence[float], cut_off: float = CUT_OFF) -> Baseline:
    """Compute random search on the programs of a space; failures have an infinite latency.

    Until a program has worked, a run stands at the slowest one that does. RecordingError where
    none works; ValueError for a cut-off outside 0 to 1.
    """
    if not 0 < cut_off < 1:
        raise ValueError(f"cut_off={cut_off}: give a share between 0 and 1")
    known = np.sort(np.asarray(latencies, np.float64))
    working = known[np.isfinite(known)]
    if not len(working):
        raise RecordingError("no program of the space works: there is nothing to score")
    known = np.where(np.isfinite(known), known, working[-1])
    curve = expected_minimum(known)
    optimum, median = float(working[0]), float(np.median(working))
    reached = np.flatnonzero(curve <= median - cut_off * (median - optimum))
    return Baseline(curve, optimum, median, int(reached[0]) + 1 if len(reached) else len(curve))


def expected_minimum(ordered: Curve) -> Curve:
    """Return the expected minimum of 1, 2, ... n values drawn without replacement.

    ``ordered`` is ascending. Of t draws, the k-th smallest value (from 0) is the minimum with
    probability C(n - k - 1, t - 1) / C(n, t).
    """
    count = len(ordered)
    trials = np.arange(1, count + 1)
    # P(the minimum is not among the k smallest) by the next k, for all numbers of trials at once.
    left = np.ones(count)
    found = np.zeros(count)
    for k, value in enumerate(ordered):
        taken = left * trials / (count - k)
        taken = np.minimum(taken, left)
        found += taken * value
        left = left - taken
    return found


def best_so_far(latencies: Sequence[float], slowest: float) -> Curve:
    """Return the lowest latency after each trial; ``slowest`` stands until a program works."""
    return np.minimum.accumulate(np.minimum(np.asarray(latencies, np.float64), slowest))


def score(
    runs: Sequence[Sequence[float]], latencies: Sequence[float], baseline: Baseline | None = None
) -> float:
    """Return the mean over the trials of (random - found) / (random - optimum), up to 1.

    0 is random search, 1 finds the optimum at once, below 0 is worse than random.

    Parameters
    ----------
    runs: of each run, the recorded latencies of what it measured, in order.
    latencies: of all programs of the space; infinite for failures.

    A run that is shorter than the budget stands at its best. ValueError without runs.
    """
    if not runs:
        raise ValueError("no runs to score")
    base = baseline or baseline_of(latencies)
    slowest = max(one for one in latencies if math.isfinite(one))
    curves = [_of_length(best_so_far(run, slowest), base.budget, slowest) for run in runs]
    random, mean = base.curve[: base.budget], np.mean(curves, axis=0)
    gap = random - base.optimum
    counted = gap > 0
    if not counted.any():
        return 0.0
    return float(np.mean((random[counted] - mean[counted]) / gap[counted]))


def _of_length(curve: Curve, length: int, slowest: float) -> Curve:
    last = curve[-1] if len(curve) else slowest
    return np.concatenate([curve[:length], np.full(max(length - len(curve), 0), last)])


def regret(run: Sequence[float], optimum: float, trials: int) -> float:
    """Return how much slower the best of the first trials is than the optimum, as a fraction.

    Infinite where none of them works.
    """
    return min(run[:trials], default=math.inf) / optimum - 1.0
