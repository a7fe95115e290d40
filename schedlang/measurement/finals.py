"""The finals: which of several programs is the fastest, and how certain that is.

The programs are timed interleaved, one sample of each per round, so that changes of the machine
(clock, temperature, other work) affect all of them equally.
"""

from __future__ import annotations

import math
import statistics
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.printed import (
    count_text,
    describe_latency,
    for_terminals,
    interval_text,
    p_text,
    percent_text,
)

CONFIDENCE = 0.95
FEWEST_SAMPLES = 5
"""With fewer samples of a program, its latency is not known well enough to compare it."""

WITHIN_NOISE = "as fast within the noise"
"""What is said of programs that cannot be told apart."""

# Medians this near, of samples that cannot be told apart, are a tie.
_TIE = 1.01
# A machine is noisy where the interval of a median is wider than this part of it.
_NOISY = 0.2
# Before the last round the winner counts as certain with a p-value below this. Looking twice at so
# low a bound (Haybittle and Peto) adds at most 0.002 to the probability of a false difference.
_CERTAIN = 0.001
DRIFT = 1.1
"""Two programs that are measured one after the other differ by up to this factor for other reasons.
"""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval in seconds, and the probability that it covers the true value."""

    low: float
    high: float
    confidence: float

    def is_wide(self, latency: float) -> bool:
        """Whether it is so wide, beside the latency that it is about, that the machine is noisy."""
        return self.high - self.low > _NOISY * latency


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
    held: whether programs were timed again. False where only one could win: its samples are those
        of the search.
    """

    ranking: tuple[Finalist, ...]
    p_value: float | None
    held: bool = True

    @property
    def winner(self) -> Finalist:
        """The program that ``tune`` returns."""
        return self.ranking[0]

    @property
    def runner_up(self) -> Finalist | None:
        """The second; None for a single finalist."""
        return self.ranking[1] if len(self.ranking) > 1 else None

    @property
    def tie(self) -> bool:
        """Whether winner and runner-up cannot be told apart, and their samples overlap."""
        if self.runner_up is None or self.p_value is None:
            return False
        overlap = min(self.runner_up.samples) <= max(self.winner.samples)
        return overlap and is_noise(self.p_value)

    @property
    def noisy(self) -> bool:
        """Whether the samples lie so far apart that they tell little."""
        return self.winner.interval.is_wide(self.winner.latency)

    def __str__(self) -> str:
        found = self.winner.interval
        if not self.held:
            return "not needed: no other program is near the fastest"
        text = (
            f"{interval_text(found.low, found.high, describe_latency)} "
            f"({found.confidence:.0%} confidence)"
        )
        if self.runner_up is None:
            return text
        second = describe_latency(self.runner_up.latency)
        if not self.tie:
            return f"{text}, the second {second}, p = {self.p_value:.2g}"
        text += f", a tie with the runner-up: {second}, p = {self.p_value:.2g}"
        if self.noisy:
            ends = min(self.winner.samples), max(self.winner.samples)
            text += (
                "; the machine is noisy: samples of one program range from "
                f"{interval_text(*ends, describe_latency)}"
            )
        return text


def choose(samples: Mapping[int, Sequence[float]], incumbent: int | None = None) -> Finals:
    """Rank programs by the median of their samples, given in seconds by candidate id.

    Programs that tie with the fastest (medians within 1%, and a p-value that does not tell them
    apart) are equally good. The one with the lowest id wins, so that the same programs give the
    same winner again. The ``incumbent``, if it takes part, wins unless another is shown to be
    faster: it ties whatever the medians are, unless each of its samples is slower. No program wins
    whose median is above that of the incumbent.

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
    tied = [f for f in finalists if _ties(f, finalists[0], incumbent)]
    staying = [f for f in finalists if f.id == incumbent]
    if staying and staying[0] in tied:
        winner = staying[0]
    else:
        bound = min((f.latency for f in staying), default=math.inf)
        winner = min((f for f in tied if f.latency <= bound), key=lambda f: f.id)
    finalists.sort(key=lambda finalist: finalist is not winner)
    p_value = None
    if len(finalists) > 1:
        p_value = mann_whitney(finalists[0].samples, finalists[1].samples)
    return Finals(tuple(finalists), p_value)


def undisputed(identity: int, samples: Sequence[float]) -> Finals:
    """Return finals that were not held, as no other program could win."""
    return Finals((Finalist(identity, tuple(samples), median_interval(samples)),), None, held=False)


def could_win(samples: Sequence[float], fastest: Sequence[float]) -> bool:
    """Whether a program may be the faster one, by its samples and those of the fastest so far.

    It may not if even its fastest sample is slower than the fastest program's median can be, by
    more than the two may differ because they were measured one after the other.
    """
    return min(samples) <= DRIFT * median_interval(fastest).high


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the p-value of the two-sided test: the probability of samples that differ this much.

    It is exact where there are at most 8 samples of one and no ties, else by the normal
    approximation with corrections for ties and continuity.
    """
    if len({*one, *other}) == 1:
        return 1.0  # SciPy 1.18 gives nan, earlier versions gave 1
    return float(_statistics().mannwhitneyu(one, other).pvalue)


def load_statistics() -> None:
    """Begin to load what compares samples, in a thread: it takes seconds on a busy machine."""
    if "scipy.stats" not in sys.modules:
        threading.Thread(target=_statistics, daemon=True).start()


def _statistics() -> Any:
    # Takes 0.4 s; a command that compares no programs does without.
    from scipy import stats

    return stats


def p_value_of(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the probability of samples that differ this much if both programs are equally fast.

    None where either has fewer than ``FEWEST_SAMPLES``.
    """
    return None if min(len(one), len(other)) < FEWEST_SAMPLES else mann_whitney(one, other)


def is_noise(p_value: float | None) -> bool:
    """Whether two programs of this p-value cannot be told apart; False where none is known."""
    return p_value is not None and p_value >= 1 - CONFIDENCE


def within_drift(ratio: float) -> bool:
    """Whether a ratio of latencies measured one after the other may be the machine alone."""
    return 1 / DRIFT <= ratio <= DRIFT


def is_certain(samples: Mapping[Any, Sequence[float]]) -> bool:
    """Whether more rounds would not change which of several programs is the fastest."""
    fastest, *others = sorted(samples.values(), key=statistics.median)
    return bool(others) and mann_whitney(fastest, others[0]) < _CERTAIN


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


def _ties(finalist: Finalist, fastest: Finalist, incumbent: int | None) -> bool:
    if finalist is fastest:
        return True
    if finalist.id == incumbent:
        near = min(finalist.samples) <= max(fastest.samples)
    else:
        near = finalist.latency <= _TIE * fastest.latency
    return near and is_noise(mann_whitney(finalist.samples, fastest.samples))


# -- The verdict on two programs, in words ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one program is faster than another, and how certain that is.

    Attributes
    ----------
    ratio: median latency of the one over that of the other.
    p_value: probability of samples that differ this much if both are equally fast; None where
        there are too few samples to tell, or only a lower bound is known.
    same_program: whether both are the same program, so that any difference is noise.
    in_turns: whether both were timed in the same rounds, which leaves no drift of the machine.
    why_unknown: why there is no p-value.
    """

    ratio: float
    p_value: float | None = None
    same_program: bool = False
    in_turns: bool = False
    why_unknown: str = "too few samples"

    @property
    def noise(self) -> bool:
        """Whether the two cannot be told apart; False where that is not known."""
        return self.same_program or is_noise(self.p_value)

    def __str__(self) -> str:
        return self.about()

    def about(self, subject: str = "") -> str:
        """Return the verdict in words; ``subject`` stands for the one program in them."""
        percent = for_terminals(percent_text(abs(self.ratio - 1), 1))
        if self.same_program:
            return f"the same program, so a difference of {percent} is noise"
        if self.noise:
            return f"{WITHIN_NOISE} ({self._chance})"
        near = within_drift(self.ratio)
        if near:
            said = f"{percent} {'slower' if self.ratio >= 1 else 'faster'}"
        else:
            said = f"{self.ratio:.3g}x the time"
        if subject:
            said = f"{subject} {'is' if near else 'takes'} {said}"
        if self.p_value is None:
            return f"{said}; cannot be told from noise: {self.why_unknown}"
        said = f"{said} ({self._chance})"
        if self.in_turns:
            return f"{said}, timed in turns"
        if near:
            limit = percent_text(DRIFT - 1)
            return f"{said}, but measured at different times: up to {limit} may be the machine"
        return f"{said}: more than noise"

    @property
    def _chance(self) -> str:
        assert self.p_value is not None
        return p_text(self.p_value)


def verdict(
    one: Sequence[float],
    other: Sequence[float],
    *,
    same_program: bool = False,
    in_turns: bool = False,
    why_unknown: str = "",
) -> Verdict:
    """Compare the samples of one program, in seconds, with those of another.

    Two programs are told apart by ``mann_whitney``, where both have ``FEWEST_SAMPLES``.

    Parameters
    ----------
    same_program: both make the same program.
    in_turns: both were timed in the same rounds.
    why_unknown: why they are not told apart; by default that one has too few samples.
    """
    fewest = min(len(one), len(other))
    return Verdict(
        statistics.median(one) / statistics.median(other),
        p_value_of(one, other),
        same_program,
        in_turns,
        why_unknown or f"one has only {count_text(fewest, 'sample')}",
    )
