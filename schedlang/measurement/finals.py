"""The finals: which of several programs is the fastest, and how certain that is.

The programs are timed interleaved, one sample of each per round, so that changes of the machine
(clock, temperature, other work) affect all of them equally.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.measurement.latency import describe_latency

CONFIDENCE = 0.95
# Medians this near, of samples that cannot be told apart, are a tie.
_TIE = 1.01


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval in seconds, and the probability that it covers the true value."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Finalist:
    """A program that was timed again.

    Attributes
    ----------
    id: the candidate's id.
    samples: latencies in seconds, one per round.
    interval: confidence interval of the median.
    """

    id: int
    samples: tuple[float, ...]
    interval: Interval

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds."""
        return statistics.median(self.samples)


@dataclass(frozen=True, slots=True)
class Finals:
    """The result of timing programs against each other.

    Attributes
    ----------
    ranking: the finalists, lowest median first, except that a tie for the first place goes to the
        program that was found first; at least one.
    p_value: probability of samples that differ this much if winner and runner-up are equally fast;
        None for a single finalist.
    """

    ranking: tuple[Finalist, ...]
    p_value: float | None

    @property
    def winner(self) -> Finalist:
        """The program that ``tune`` returns."""
        return self.ranking[0]

    @property
    def runner_up(self) -> Finalist | None:
        """The second; None for a single finalist."""
        return self.ranking[1] if len(self.ranking) > 1 else None

    def __str__(self) -> str:
        found = self.winner.interval
        text = (
            f"{describe_latency(found.low)} to {describe_latency(found.high)} "
            f"({found.confidence:.0%} confidence)"
        )
        if self.runner_up is None:
            return text
        second = describe_latency(self.runner_up.latency)
        return f"{text}, the second {second}, p = {self.p_value:.2g}"


def choose(samples: Mapping[int, Sequence[float]]) -> Finals:
    """Rank programs by the median of their samples, given in seconds by candidate id.

    Programs that tie with the fastest (medians within 1%, and a p-value that does not tell them
    apart) are equally good. The one with the lowest id wins, so that the same programs give the
    same winner again.

    The p-value is that of the two-sided Mann-Whitney U test, since either program may win. The
    test compares ranks, so a few interrupted samples count like any other slow ones; they would
    widen the variance of a t-test until it sees no difference. It does not assume normal latencies
    (Droplet Search, 3.3, footnote 4). The samples are of one build of each program: the test says
    nothing about another machine.

    Raises ValueError when there is no program, or one without samples.
    """
    if not samples:
        raise ValueError("no program to choose from")
    finalists = [
        Finalist(identity, tuple(times), median_interval(times))
        for identity, times in samples.items()
    ]
    finalists.sort(key=lambda finalist: finalist.latency)
    winner = min((f for f in finalists if _ties(f, finalists[0])), key=lambda f: f.id)
    finalists.sort(key=lambda finalist: finalist is not winner)
    p_value = None
    if len(finalists) > 1:
        p_value = _equally_fast(finalists[0].samples, finalists[1].samples)
    return Finals(tuple(finalists), p_value)


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return a confidence interval of the median by order statistics, for any distribution.

    The interval is the narrowest symmetric pair of order statistics that covers the median with at
    least ``confidence``. Fewer than six samples cannot give 95%: the interval is then their whole
    range, and ``confidence`` of the result is what that gives.
    """
    ordered = sorted(samples)
    count = len(ordered)
    if count == 0:
        raise ValueError("an interval needs at least one sample")
    # The median lies below the k-th lowest sample if fewer than k samples lie below the median.
    rank, below = 1, 0.5**count
    while rank < count // 2:
        next_below = below + math.comb(count, rank) / 2**count
        if 2 * next_below > 1 - confidence:
            break
        rank, below = rank + 1, next_below
    return Interval(ordered[rank - 1], ordered[count - rank], 1 - 2 * below)


def _ties(finalist: Finalist, fastest: Finalist) -> bool:
    if finalist is fastest:
        return True
    near = finalist.latency <= _TIE * fastest.latency
    return near and _equally_fast(finalist.samples, fastest.samples) >= 1 - CONFIDENCE


def _equally_fast(one: Sequence[float], other: Sequence[float]) -> float:
    # Workers import this package, and scipy would cost each of them a second.
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(one, other, alternative="two-sided").pvalue)
