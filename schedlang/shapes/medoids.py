"""Shapes that stand for others: medoids in the logarithm of extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

_ROUNDS = 20


def distances(shapes: Sequence[Mapping[str, int]]) -> np.ndarray:
    """Return how far shapes are from each other: the sum of the logarithms of extents' ratios."""
    logs = np.log(np.array([list(one.values()) for one in shapes], dtype=float))
    found: np.ndarray = np.abs(logs[:, None, :] - logs[None, :, :]).sum(axis=2)
    return found


def medoids(far: np.ndarray, weights: Sequence[float], count: int) -> list[int]:
    """Return the places of ``count`` shapes to which all are near, the most central one first.

    They minimize the weighted sum of the distances to the nearest one (Kaufman and Rousseeuw,
    "Partitioning around medoids", 1990): a greedy choice, and then exchanges while they help.

    Parameters
    ----------
    far: distance between each two shapes.
    weights: of the shapes.
    """
    weight = np.array(weights, dtype=float)
    chosen: list[int] = []
    nearest = np.full(len(weight), np.inf)
    for _ in range(min(count, len(weight))):
        costs = np.minimum(nearest[:, None], far).T @ weight
        costs[chosen] = np.inf
        chosen.append(int(np.argmin(costs)))
        nearest = np.minimum(nearest, far[:, chosen[-1]])
    for _ in range(_ROUNDS):
        if not _exchange(far, weight, chosen):
            break
    return chosen


def _exchange(far: np.ndarray, weight: np.ndarray, chosen: list[int]) -> bool:
    """Replace one of the chosen by another shape if that is better; return whether it was."""
    best = float(far[:, chosen].min(axis=1) @ weight)
    for place in range(len(chosen)):
        others = [*chosen[:place], *chosen[place + 1 :]]
        rest = far[:, others].min(axis=1) if others else np.full(len(weight), np.inf)
        costs = np.minimum(rest[:, None], far).T @ weight
        costs[chosen] = np.inf
        candidate = int(np.argmin(costs))
        if costs[candidate] < best * (1 - 1e-9):
            chosen[place] = candidate
            return True
    return False
