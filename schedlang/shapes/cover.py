"""Few kernels for many shapes, with a bound on what each shape loses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Weights = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Bound:
    """How much slower than the best known program shapes may be.

    Attributes
    ----------
    mean: of the geometric mean over all shapes: 0.05 allows 5%.
    worst: of each shape.
    """

    mean: float = 0.05
    worst: float = 0.15

    def is_kept(self, losses: np.ndarray, weights: Weights) -> bool:
        """Return whether losses, as ratios of times, are within the bound."""
        return mean_of(losses, weights) <= 1 + self.mean and losses.max() <= 1 + self.worst


def mean_of(losses: np.ndarray, weights: Weights | None = None) -> float:
    """Return the geometric mean, weighted if weights are given."""
    return float(np.exp(np.average(np.log(losses), weights=weights)))


def cover(
    losses: np.ndarray, weights: Weights, bound: Bound, most: int, kept: Sequence[int] = ()
) -> list[int]:
    """Choose kernels, each time the one that lowers the mean loss most, until the bound holds.

    Parameters
    ----------
    losses: time over the least known for each shape (a row) and kernel (a column); infinite where
        the kernel failed.
    most: number of kernels at most.
    kept: kernels that are chosen in any case.
    """
    chosen = list(kept)
    while len(chosen) < min(most, losses.shape[1]):
        now = losses[:, chosen].min(axis=1) if chosen else np.full(len(losses), np.inf)
        if np.isfinite(now).all() and bound.is_kept(now, weights):
            break
        others = [k for k in range(losses.shape[1]) if k not in chosen]

        # Shapes that have no kernel yet count most.
        def gain(kernel: int, now: np.ndarray = now) -> tuple[int, float]:
            then = np.minimum(now, losses[:, kernel])
            known = np.isfinite(then)
            return int(known.sum()), -float(np.log(then[known]) @ np.array(weights)[known])

        best = max(others, key=gain)
        then = np.minimum(now, losses[:, best])
        if np.array_equal(then, now):
            break
        chosen.append(best)
    return chosen
