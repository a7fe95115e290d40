"""Figures of a whole suite: how its kernels compare with a side."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.cli.suite.row import Row


@dataclass(frozen=True)
class Figures:
    """Ratios of kernels: latency of a side over ours, so that above 1 we are faster.

    Attributes
    ----------
    kernels: number of kernels that both sides ran.
    at_least_as_fast: number of those with a ratio of 1 or more.
    geometric_mean, best, percentile_90, lowest: of the ratios.
    """

    kernels: int
    at_least_as_fast: int
    geometric_mean: float
    best: float
    percentile_90: float
    lowest: float


def figures(rows: Iterable[Row], side: str) -> Figures | None:
    """Return how kernels compare with a side; None where no kernel has both latencies."""
    ratios = [row.ratio[side] for row in rows if side in row.ratio]
    if not ratios:
        return None
    return Figures(
        kernels=len(ratios),
        at_least_as_fast=sum(ratio >= 1 for ratio in ratios),
        geometric_mean=statistics.geometric_mean(ratios),
        best=max(ratios),
        percentile_90=float(np.percentile(ratios, 90)),
        lowest=min(ratios),
    )


def by_family(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows by the first word of their names: ``matmul`` of ``matmul.q_proj.s32``."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.kernel.partition(".")[0], []).append(row)
    return found


def losers(rows: Iterable[Row], side: str) -> list[Row]:
    """Return the kernels that a side runs faster, the slowest of ours first."""
    lost = [row for row in rows if row.ratio.get(side, 1.0) < 1]
    return sorted(lost, key=lambda row: row.ratio[side])
