"""Outcomes that no machine measured."""

from __future__ import annotations

import random

from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurement, Status
from schedlang.search import Outcome
from schedlang.search.proposals import Ledger


def timed(id: int, latency: float, noise: float = 0.0, samples: int = 5) -> Outcome:
    """Noise is relative, only ever adds time, and is drawn from ``id`` alone."""
    rng = random.Random(id)
    drawn = tuple(latency * (1 + abs(rng.gauss(0, noise))) for _ in range(samples))
    return Outcome(id, Measurement(id, Status.OK, drawn))


def enter(ledger: Ledger, schedule: Schedule, latency: float) -> None:
    """Propose a new program and tell its latency."""
    proposal = ledger.admit(schedule)
    assert proposal is not None
    ledger.settle([timed(proposal.id, latency)])
