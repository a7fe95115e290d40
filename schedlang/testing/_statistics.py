"""Goodness-of-fit tests with a stated rate of false failures."""

from __future__ import annotations

from collections.abc import Iterable

from scipy.stats import chi2

FALSE_FAILURE_RATE = 1e-6
"""The chance that one test of a correct implementation fails for one seed. The seeds are fixed, so
a test that has passed goes on passing until the draws change."""

_MIN_EXPECTED = 8.0


def fit_p_value(observed: Iterable[int], expected: Iterable[float]) -> float:
    """Return the chi-square p-value of counts; cells with small expectations are pooled."""
    cells: list[tuple[float, float]] = []
    pooled_observed, pooled_expected = 0.0, 0.0
    for count, mean in zip(observed, expected, strict=True):
        if mean < _MIN_EXPECTED:
            pooled_observed += count
            pooled_expected += mean
        else:
            cells.append((count, mean))
    if pooled_expected >= _MIN_EXPECTED:
        cells.append((pooled_observed, pooled_expected))
    if len(cells) < 2:
        return 1.0
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    return float(chi2.sf(statistic, len(cells) - 1))


def binomial_p_value(trials: Iterable[tuple[int, int, float]]) -> float:
    """p-value of independent binomial counts ``(successes, n, p)``, by the sum of their z squared.

    Counts whose expectations are too small for the normal approximation are skipped.
    """
    statistic, n_used = 0.0, 0
    for successes, n, p in trials:
        if min(n * p, n * (1.0 - p)) >= _MIN_EXPECTED:
            statistic += (successes - n * p) ** 2 / (n * p * (1.0 - p))
            n_used += 1
    return float(chi2.sf(statistic, n_used)) if n_used else 1.0
