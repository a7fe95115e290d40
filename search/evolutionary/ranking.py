"""How well predicted scores put measured programs in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

TIE = 0.01
"""Latencies whose relative difference is below this count as equal."""


def pairwise_accuracy(predicted: ArrayLike, latencies: Sequence[float | None]) -> float | None:
    """Compute the share of pairs of programs that the scores put in the right order.

    Parameters
    ----------
    predicted: a score for each program, higher is faster.
    latencies: in seconds; ``None`` for a program that failed, which is slower than all that work.

    Pairs whose latencies are within 1% of each other, or that both failed, do not count; equal
    scores are half right. ``None`` when no pair counts.
    """
    scores, times = _checked(predicted, latencies)
    first, second = np.triu_indices(len(times), k=1)
    first_wins = times[second] > times[first] * (1 + TIE)
    second_wins = times[first] > times[second] * (1 + TIE)
    counts = int(np.sum(first_wins | second_wins))
    if not counts:
        return None
    first_higher, tied = scores[first] > scores[second], scores[first] == scores[second]
    right = np.where(first_higher, first_wins, second_wins) & ~tied
    half = tied & (first_wins | second_wins)
    return float((np.sum(right) + np.sum(half) / 2) / counts)


def recall_at(k: int, predicted: ArrayLike, latencies: Sequence[float | None]) -> float | None:
    """Compute the share of the ``k`` highest scores that belong to the ``k`` fastest programs.

    Programs within 1% of the k-th fastest count among them. ``None`` when fewer than ``k`` programs
    work; ValueError when ``k`` is below 1.
    """
    scores, times = _checked(predicted, latencies)
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if np.isfinite(times).sum() < k:
        return None
    limit = np.sort(times)[k - 1] * (1 + TIE)
    chosen = np.argsort(-scores, kind="stable")[:k]
    return float(np.mean(times[chosen] <= limit))


def describe_ranking(predicted: Sequence[float], latencies: Sequence[float | None]) -> str | None:
    """Say in a few words how well the scores rank the programs; ``None`` if no pair differs."""
    k = max(1, len(latencies) // 4)
    accuracy = pairwise_accuracy(predicted, latencies)
    recall = recall_at(k, predicted, latencies)
    if accuracy is None or recall is None:
        return None
    return (
        f"the cost model put {accuracy:.0%} of pairs in the right order, and knew "
        f"{recall:.0%} of the fastest {k}"
    )


def _checked(
    predicted: ArrayLike, latencies: Sequence[float | None]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores and latencies as arrays, failures as infinite; ValueError on a mismatch."""
    scores = np.asarray(predicted, dtype=np.float64)
    times = np.array([np.inf if t is None else t for t in latencies], dtype=np.float64)
    if scores.shape != times.shape:
        raise ValueError(f"{scores.size} scores for {times.size} programs")
    return scores, times
