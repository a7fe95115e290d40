"""How often to run a program before its latency is known well enough."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from schedlang.measurement.disturbance import (
    ENOUGH,
    Disturbance,
    Sample,
    counting,
    disturbance_of,
    undisturbed,
)

# What a first call may take beyond its steady state (page faults, sleeping threads), and what
# waking threads and a busy machine may add to a single call.
_COLD_SECONDS = 0.010
_JITTER_SECONDS = 0.001
_CALIBRATIONS = 4
# Parts of a warm-up. A program that becomes faster meanwhile gets more, up to twice as many.
_WARM_UPS = 4
# On a core that was idle, programs take up to 1.8 times as long.
_COLD_FACTOR = 2.0
# A call is timed on its own if it lasts this many ticks of the clock: the error is then about 1%.
_TICKS = 100
# A program is given up for a margin after this part of ``min_seconds``.
_LEAST_PART = 0.25
_NORMAL_95 = 1.96
# From the median absolute deviation to the standard deviation, and from that to the median's error,
# for normal samples. Unlike the mean, both ignore the few calls that were interrupted.
_MAD_TO_SIGMA = 1.4826
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True)
class TimingPolicy:
    """When there are enough samples.

    Attributes
    ----------
    warm_seconds: a program runs for this long before its first sample: a core that was idle
        computes with up to half its speed for some milliseconds. Not with ``flush_cache``.
    min_sample_seconds: a sample lasts at least this long; short programs run several times in it.
    min_repeats, max_repeats: bounds on the number of samples.
    min_seconds: samples are taken for at least this long, so that a short disturbance of the
        machine is a part of them only; a program that is given up takes less.
    max_seconds: after this time, ``min_repeats`` samples are enough, however wide their interval:
        on a busy machine it does not get narrow.
    budget_seconds: no sample starts after this time.
    patience_seconds: while other work disturbs the samples of a program that could be the fastest,
        more are taken for this long, until three are undisturbed; until the budget where none is.
        Where known work tells of a disturbance, it is timed again within this time.
    relative_width: stop when half the 95% confidence interval of the median is below this fraction
        of the median, and where the interval is above the best.
    slow_factor: give up a program after its first runs if it is slower than the best by this
        factor.
    margin: give up a program after ``min_repeats // 2 + 1`` samples, and a quarter of
        ``min_seconds``, if all are slower than the best by this factor.
    flush_cache: empty the caches before each call, as in a model whose data come from main memory.
        Calls are then timed one by one, which the clock can do only if they take some microseconds:
        shorter programs end as SUSPICIOUS_TIME.
    """

    min_sample_seconds: float = 5e-4
    min_repeats: int = 5
    max_repeats: int = 100
    min_seconds: float = 0.02
    max_seconds: float = 0.2
    budget_seconds: float = 1.0
    patience_seconds: float = 0.5
    relative_width: float = 0.02
    slow_factor: float = 3.0
    margin: float = 1.25
    flush_cache: bool = False
    warm_seconds: float = 0.008

    def __post_init__(self) -> None:
        if not 1 <= self.min_repeats <= self.max_repeats:
            raise ValueError(
                f"min_repeats={self.min_repeats}, max_repeats={self.max_repeats}: give "
                "1 <= min_repeats <= max_repeats"
            )


REFERENCE_TIMING = TimingPolicy(min_repeats=3, max_repeats=5, relative_width=0.1)
"""For the unscheduled program, whose latency is only reported."""


@dataclass(frozen=True, slots=True)
class ProgramTiming:
    """The result of timing a program.

    Attributes
    ----------
    samples: seconds per call.
    gave_up: timing stopped early, as the program is surely slower than the best so far.
    verified: its results were compared with the unscheduled program's and agree.
    disturbance: what other work did to the samples; None where that is unknown.
    """

    samples: tuple[float, ...]
    gave_up: bool = False
    verified: bool = False
    disturbance: Disturbance | None = None

    @property
    def fastest(self) -> float:
        """Its fastest sample, in seconds per call."""
        return min(self.samples)

    def judged_quiet(self) -> ProgramTiming:
        """Return it as undisturbed, unless more is known of its samples."""
        return self if self.disturbance is not None else replace(self, disturbance=self._quiet())

    def slowed(self, factor: float) -> ProgramTiming:
        """Return it as disturbed: other work made all samples up to ``factor`` times as long."""
        known = self.disturbance or self._quiet()
        if known is None:
            return self
        return replace(self, samples=(self.fastest,), disturbance=known.slowed(factor))

    def after(self, discarded: Sequence[ProgramTiming]) -> ProgramTiming:
        """Return it with the samples that were discarded before it as disturbed ones."""
        known, others = self.disturbance, (one.disturbance or one._quiet() for one in discarded)
        if known is None:
            return self
        more = sum(one.undisturbed + one.disturbed for one in others if one is not None)
        return replace(self, disturbance=replace(known, disturbed=known.disturbed + more))

    def _quiet(self) -> Disturbance | None:
        return disturbance_of([Sample(seconds, 0.0) for seconds in self.samples])


def collect(
    run: Callable[[int], Sample | float],
    policy: TimingPolicy,
    best: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
    cold: Sample | None = None,
) -> ProgramTiming:
    """Time a program until the policy is satisfied.

    ``run(n)`` calls it n times and returns seconds per call, as a ``Sample`` where it is known how
    long its threads waited. ``best`` is the latency to beat. ``cold`` is the time of a first call;
    without it, this function makes the first.
    """

    def take(calls: int) -> Sample:
        found = run(calls)
        return found if isinstance(found, Sample) else Sample(found)

    start = clock()
    hopeless = math.inf if best is None else policy.slow_factor * best
    cold = take(1) if cold is None else cold
    if cold.seconds >= policy.budget_seconds or cold.least > hopeless + _COLD_SECONDS:
        return _timing([cold], policy, gave_up=cold.least > hopeless)
    warm = take(1)
    if min(cold.least, warm.least) > hopeless + _JITTER_SECONDS:
        return _timing([warm], policy, gave_up=True)
    calls, first = 1, warm
    if not policy.flush_cache:
        warm = warm_up(take, warm, policy, hopeless)
        calls, first = _calibrate(take, warm, policy.min_sample_seconds)
    samples = [first]
    while not _enough(samples, calls, clock() - start, policy, best):
        if best is not None and _surely_slower(samples, calls, best, policy):
            return _timing(samples, policy, gave_up=True)
        samples.append(take(calls))
    return _timing(samples, policy)


def _timing(
    samples: Sequence[Sample], policy: TimingPolicy, *, gave_up: bool = False
) -> ProgramTiming:
    return ProgramTiming(counting(samples), gave_up, disturbance=disturbance_of(samples))


def shortest_call(clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that a single call must last for the clock to time it well."""
    steps = []
    for _ in range(200):
        start = now = clock()
        while now <= start:
            now = clock()
        steps.append(now - start)
    return _TICKS * statistics.median(steps)


def warm_up(
    take: Callable[[int], Sample],
    warm: Sample,
    policy: TimingPolicy,
    hopeless: float = math.inf,
) -> Sample:
    """Run a program until its core is as fast as it gets, see ``warm_seconds``.

    ``warm`` is a sample of one call; the last sample is returned. A program that is slower than
    ``hopeless`` seconds on any core is not worth that. With ``flush_cache`` nothing is run.
    """
    if policy.flush_cache:
        return warm
    spent, part = warm.seconds, policy.warm_seconds / _WARM_UPS
    for _ in range(2 * _WARM_UPS):
        if not (warm.seconds > 0 and spent < policy.warm_seconds):
            break
        calls = max(math.ceil(part / max(warm.seconds, 1e-9)), 1)
        warm = take(calls)
        spent += warm.seconds * calls
        if warm.least > _COLD_FACTOR * hopeless:
            break
    return warm


def _calibrate(
    take: Callable[[int], Sample], warm: Sample, min_sample: float
) -> tuple[int, Sample]:
    """Return how many calls make one sample, and the first such sample."""
    calls, sample = 1, warm
    for _ in range(_CALIBRATIONS):
        if not sample.least * calls < (min_sample if calls == 1 else min_sample / 2):
            break
        # Of a disturbed sample it is not known how much longer the program would take alone.
        if not sample.disturbed:
            if calls > 1 and sample.seconds <= 0:
                break
            calls = max(calls + 1, math.ceil(min_sample / max(sample.seconds, 1e-9)))
        sample = take(calls)
    return calls, sample


def _enough(
    samples: Sequence[Sample],
    calls: int,
    elapsed: float,
    policy: TimingPolicy,
    best: float | None,
) -> bool:
    counted = undisturbed(samples)
    if len(counted) >= policy.max_repeats or elapsed >= policy.budget_seconds:
        return True
    if len(samples) < policy.min_repeats:
        return False
    if elapsed >= policy.max_seconds:
        enough = len(counted) >= ENOUGH or (len(counted) > 0 and elapsed >= policy.patience_seconds)
        return enough or not _may_win(samples, best, policy)
    if len(counted) < policy.min_repeats:
        return False
    # Emptying the caches takes longer than a call, so that its samples lie far apart in any case.
    if not policy.flush_cache and calls * sum(counted) < policy.min_seconds:
        return False
    width = relative_half_width(counted)
    slower = best is not None and statistics.median(counted) * (1 - width) > best
    return slower or width < policy.relative_width


def _may_win(samples: Sequence[Sample], best: float | None, policy: TimingPolicy) -> bool:
    return best is None or _fastest(samples) <= policy.margin * best


def _surely_slower(
    samples: Sequence[Sample], calls: int, best: float, policy: TimingPolicy
) -> bool:
    fastest = _fastest(samples)
    if len(samples) >= 2 and fastest > policy.slow_factor * best:
        return True
    if len(samples) <= policy.min_repeats // 2 or fastest <= policy.margin * best:
        return False
    # What disturbs the machine without a sign comes and goes within milliseconds.
    taken = calls * sum(sample.seconds for sample in samples)
    return policy.flush_cache or taken >= _LEAST_PART * policy.min_seconds


def _fastest(samples: Sequence[Sample]) -> float:
    """Return the seconds of the sample that noise, which only ever adds time, has spared most.

    Where other work disturbed them all, what the program takes at least.
    """
    counted = undisturbed(samples)
    return min(counted) if counted else statistics.median(sample.least for sample in samples)


def relative_half_width(samples: Sequence[float]) -> float:
    """Return half the 95% confidence interval of the median, relative to the median."""
    median = statistics.median(samples)
    if median <= 0:
        return 0.0
    deviation = _MAD_TO_SIGMA * statistics.median(abs(sample - median) for sample in samples)
    return _NORMAL_95 * _MEDIAN_ERROR * deviation / math.sqrt(len(samples)) / median
