"""Which part of the networks' time each task takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.networks.totals import Total
from schedlang.networks.tuning.sliced_task import SlicedTask


@dataclass(frozen=True)
class Shares:
    """The time of the tasks whose latency is known.

    Attributes
    ----------
    total: of one run of all networks, as far as latencies are known.
    parts: fraction of ``total`` for each task; 0 where its latency is not known.
    """

    total: Total
    parts: tuple[float, ...]


def shares_of(runs: Sequence[SlicedTask]) -> Shares:
    """Return the share of each task."""
    seconds = [sum(run.shared.weights) * run.latency for run in runs]
    total = Total.of(seconds)
    shares = map(total.share, seconds)
    return Shares(total, tuple(share if share > 0 else 0.0 for share in shares))
