"""Scores of searches by the name under which users import them; they are in ``schedlang.lab``."""

from schedlang.lab.simulation import (
    CUT_OFF,
    Baseline,
    Curve,
    baseline_of,
    best_so_far,
    expected_minimum,
    regret,
    score,
)

__all__ = [
    "CUT_OFF",
    "Baseline",
    "Curve",
    "baseline_of",
    "best_so_far",
    "expected_minimum",
    "regret",
    "score",
]
