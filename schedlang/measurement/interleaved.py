"""Interleaved timing: one sample of each candidate per round, in alternating order."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from schedlang.measurement.finals import is_certain
from schedlang.measurement.measurement import Measurement, Status

FEWEST_ROUNDS = 2
"""With fewer rounds, the order of two candidates is a matter of luck."""

ROUNDS = 30
"""Default number of samples of each candidate."""

BUDGET_SECONDS = 10.0
"""Default wall time of all rounds together."""

# After these rounds the candidates are compared; where one is certain to be the fastest, it ends.
_LOOKS = (10, 20)

TakeRound = Callable[[Sequence[int]], Iterable[Measurement]]
Enough = Callable[[int, Mapping[int, Sequence[float]]], bool]


def interleave(
    ids: Sequence[int],
    take_round: TakeRound,
    rounds: int = ROUNDS,
    budget_seconds: float = BUDGET_SECONDS,
    *,
    enough: Enough | None = None,
) -> dict[int, Measurement]:
    """Time candidates against each other; return one measurement per candidate, by id.

    All that are OK have equally many samples. A candidate that fails in any round is left out of
    the next ones.

    Parameters
    ----------
    ids: the candidates' ids.
    take_round: measure the candidates with these ids once, in this order. The latency of each is
        one sample. Where it leaves out a candidate, time was up: the round does not count.
    rounds: number of samples of each candidate; fewer, but at least 10, where it is certain which
        is the fastest.
    budget_seconds: stop after the first round that ends later than this, but not before
        ``FEWEST_ROUNDS``.
    enough: called with the number of rounds and the samples by id, once ``rounds`` are done; while
        it is False, more rounds follow. By default it is always True.

    Raises ValueError when ``rounds`` is below 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds}; give 1 or more")
    found: dict[int, Measurement] = {}
    samples: dict[int, list[float]] = {identity: [] for identity in ids}
    end = time.monotonic() + budget_seconds
    for number in itertools.count():
        late = number >= FEWEST_ROUNDS and time.monotonic() >= end
        if not samples or late:
            break
        if number in _LOOKS and number < rounds and is_certain(samples):
            break
        if number >= rounds and (enough is None or enough(number, samples)):
            break
        # There and back: what changes steadily within a round then favours no candidate.
        order = list(samples) if number % 2 == 0 else list(samples)[::-1]
        taken = {measurement.id: measurement for measurement in take_round(order)}
        if number and len(taken) < len(order):
            break
        for identity in order:
            measurement = taken.get(identity) or _unmeasured(identity)
            seconds = measurement.run_seconds + (found[identity].run_seconds if number else 0.0)
            if number == 0 or not measurement.ok:
                found[identity] = measurement
            found[identity] = replace(found[identity], run_seconds=seconds)
            if measurement.ok:
                samples[identity].append(measurement.latency)
            else:
                del samples[identity]
    for identity, times in samples.items():
        found[identity] = replace(found[identity], samples=tuple(times))
    return found


def _unmeasured(identity: int) -> Measurement:
    return Measurement(
        identity, Status.RUN_TIMEOUT, message="the deadline came before it was measured"
    )
