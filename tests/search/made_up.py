"""Outcomes that no machine measured."""

from __future__ import annotations

import random

from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurement, Status
from schedlang.search import Outcome
from schedlang.search.proposals import Proposals


def timed(id: int, latency: float, noise: float = 0.0, samples: int = 5) -> Outcome:
    """Noise is relative, only ever adds time, and is drawn from ``id`` alone."""
    rng = random.Random(id)
    drawn = tuple(latency * (1 + abs(rng.gauss(0, noise))) for _ in range(samples))
    return Outcome(id, Measurement(id, Status.OK, drawn))


def enter(proposals: Proposals, schedule: Schedule, latency: float) -> None:
    """Propose a new program and tell its latency."""
    proposal = proposals.admit(schedule)
    assert proposal is not None
    proposals.settle([timed(proposal.id, latency)])
