"""Weights that the priors of several modules use."""

from __future__ import annotations

# Weight of a factor that fills whole vectors or all cores; other factors weigh 1.
PREFERENCE = 16.0


def weigh_multiples(step: int, bound: int) -> dict[int, float]:
    """Return a weight for each multiple of ``step`` up to ``bound``: ``PREFERENCE``.

    Factors that are not in the result weigh 1: they waste lanes or cores.
    """
    return {factor: PREFERENCE for factor in range(step, bound + 1, step)}


def complement(prob: float) -> float:
    """Return ``1 - prob`` as one writes it: 0.1 for 0.9, not 0.09999999999999998."""
    return round(1 - prob, 12)
