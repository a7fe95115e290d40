"""A contest: several sides are timed in turns, one sample of each per round.

What changes on the machine while they run (clock, temperature, other work) then affects all sides
equally. ``schedlang.measurement.finals`` has the statistics that tell which is the fastest.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.measurement.finals import (
    FEWEST_SAMPLES,
    WITHIN_NOISE,
    Interval,
    Verdict,
    is_certain,
    median_interval,
    p_value_of,
)
from schedlang.measurement.measurement import Measurement, Status

FEWEST_ROUNDS = 2
"""With fewer rounds, the order of two sides is a matter of luck."""

ROUNDS = 30
"""Default number of samples of each candidate."""

BUDGET_SECONDS = 10.0
"""Default wall time of all rounds together."""

# After these rounds the candidates are compared; where one is certain to be the fastest, it ends.
_LOOKS = (10, 20)

Side = TypeVar("Side", bound=Hashable)
Enough = Callable[[int, Mapping[Side, Sequence[float]]], bool]


def hold_contest(
    sides: Iterable[Side],
    take_round: Callable[[Sequence[Side]], Mapping[Side, float | None] | None],
    rounds: int,
    budget_seconds: float = math.inf,
    *,
    looks: Sequence[int] = (),
    enough: Enough[Side] | None = None,
    clock: Clock = SYSTEM,
) -> dict[Side, list[float]]:
    """Time sides in turns; return the samples of those that never failed, equally many of each.

    Parameters
    ----------
    sides: what identifies each side.
    take_round: take one sample of each of these sides, in this order. It returns seconds by side,
        ``None`` for a side that failed, which is left out of the next rounds; or, when time was up,
        ``None`` in place of it all: the round does not count, and no other follows.
    rounds: number of samples of each side.
    budget_seconds: stop after the first round that ends later than this, but not before
        ``FEWEST_ROUNDS``.
    looks: numbers of rounds after which the contest ends if it is certain which side is the
        fastest.
    enough: called with the number of rounds and the samples by side, once ``rounds`` are done;
        while it is False, more rounds follow. By default it is always True.
    clock: tells the time.

    Raises ValueError when ``rounds`` is below 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds}; give 1 or more")
    samples: dict[Side, list[float]] = {side: [] for side in sides}
    end = clock.now() + budget_seconds
    for number in itertools.count():
        late = number >= FEWEST_ROUNDS and clock.now() >= end
        if not samples or late:
            break
        if number in looks and number < rounds and is_certain(samples):
            break
        if number >= rounds and (enough is None or enough(number, samples)):
            break
        taken = take_round(there_and_back(samples, number))
        if taken is None:
            break
        for side, seconds in taken.items():
            if seconds is None:
                del samples[side]
            else:
                samples[side].append(seconds)
    return samples


def there_and_back(sides: Iterable[Side], number: int) -> list[Side]:
    """Return the order of the sides in a round: reversed in every second one.

    What changes steadily within a round then favours no side.
    """
    order = list(sides)
    return order if number % 2 == 0 else order[::-1]


def interleave(
    ids: Sequence[int],
    take_round: Callable[[Sequence[int]], Iterable[Measurement]],
    rounds: int = ROUNDS,
    budget_seconds: float = BUDGET_SECONDS,
    *,
    enough: Enough[int] | None = None,
    clock: Clock = SYSTEM,
) -> dict[int, Measurement]:
    """Hold a contest of candidates; return one measurement per candidate, by id.

    All that are OK have equally many samples. A candidate that fails in any round is left out of
    the next ones.

    Parameters
    ----------
    ids: the candidates' ids.
    take_round: measure the candidates with these ids once, in this order. The latency of each is
        one sample. Where it leaves out a candidate, time was up: the round does not count.
    rounds: number of samples of each candidate; fewer, but at least 10, where it is certain which
        is the fastest.
    budget_seconds, enough, clock: as in ``hold_contest``.

    Raises ValueError when ``rounds`` is below 1.
    """
    found: dict[int, Measurement] = {}

    def take(order: Sequence[int]) -> dict[int, float | None] | None:
        taken = {measurement.id: measurement for measurement in take_round(order)}
        if found and len(taken) < len(order):
            return None
        latencies: dict[int, float | None] = {}
        for identity in order:
            measurement, known = taken.get(identity) or _unmeasured(identity), found.get(identity)
            seconds = measurement.run_seconds + (known.run_seconds if known else 0.0)
            latest = measurement if known is None or not measurement.ok else known
            found[identity] = replace(latest, run_seconds=seconds)
            latencies[identity] = measurement.latency if measurement.ok else None
        return latencies

    samples = hold_contest(
        ids, take, rounds, budget_seconds, looks=_LOOKS, enough=enough, clock=clock
    )
    for identity, times in samples.items():
        found[identity] = replace(found[identity], samples=tuple(times))
    return found


def _unmeasured(identity: int) -> Measurement:
    return Measurement(
        identity, Status.RUN_TIMEOUT, message="the deadline came before it was measured"
    )


@dataclass(frozen=True)
class Standing:
    """How fast one side of a contest is, next to the one that is compared with all others.

    Attributes
    ----------
    name: of the side.
    samples: latencies in seconds, one a round; a single one is no more than an estimate.
    p_value: probability of samples that differ this much from ours if both are equally fast; None
        for ours, and where there are too few samples.
    complete: False where measuring was cut off: the latency is a lower bound.
    """

    name: str
    samples: Sequence[float]
    p_value: float | None = None
    complete: bool = True

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds."""
        return statistics.median(self.samples)

    @property
    def interval(self) -> Interval | None:
        """Confidence interval of the median; None with too few samples."""
        return median_interval(self.samples) if len(self.samples) >= FEWEST_SAMPLES else None

    def verdict(self, ours: Standing) -> str:
        """Say how its latency relates to ours, in a few words."""
        if self is ours:
            return ""
        found = Verdict(self.latency / ours.latency, self.p_value, in_turns=True)
        if found.noise:
            return f"{found.ratio:.2f}x, {WITHIN_NOISE}"
        bound = "" if self.complete else ">= "
        if found.ratio >= 1:
            return f"{bound}{found.ratio:.3g}x the time"
        return f"{found.ratio:.2f}x the time: faster"


def standings(samples: Mapping[str, Sequence[float]], ours: str) -> list[Standing]:
    """Return how fast each side is, and the p-value of its difference from the side ``ours``."""
    return [
        Standing(name, times, None if name == ours else p_value_of(times, samples[ours]))
        for name, times in samples.items()
    ]
