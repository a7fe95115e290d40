"""What is known of a run at one moment, in the words that people read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.measurement import Status, describe_latency, describe_speedup
from schedlang.measurement.disturbance import RunDisturbance

NO_TIME_LEFT = 0.5
"""Seconds below which the time left is not worth saying."""
# Parts of the time that are smaller are left out.
_SMALLEST_PART = 0.02
_PARTS = {
    "start": "starting workers",
    "search": "search",
    "model": "cost model",
    "build": "build",
    "run": "run",
    "measure": "waiting",
    "finals": "finals",
}


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment.

    Attributes
    ----------
    title: of the run; phase: what it does.
    seconds: wall time so far; left: about how many are to come, None where nobody knows.
    trials: measured candidates; limit: how many there will be at most, None without a limit.
    best: lowest latency in seconds, None before any. flops: operations of a call.
    reference: latency of the unscheduled program in seconds, NaN before it is known; a lower bound
        unless ``reference_complete``.
    roofline: seconds that a call takes at least; 0 where nobody knows.
    counts: candidates by status.
    rejected: traces that did not become candidates.
    screened: candidates that a model of the search predicted, and that were not measured.
    disturbance: what other work did to the samples.
    report: the search's own. parts: seconds by what they went into.
    """

    title: str
    phase: str = ""
    seconds: float = 0.0
    left: float | None = None
    trials: int = 0
    limit: int | None = None
    best: float | None = None
    flops: float = 0.0
    reference: float = math.nan
    reference_complete: bool = True
    roofline: float = 0.0
    counts: Mapping[Status, int] = field(default_factory=dict)
    rejected: int = 0
    screened: int = 0
    disturbance: RunDisturbance = RunDisturbance()
    report: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def best_text(self) -> str:
        """The lowest latency: ``36.1 us, 148.7 GFLOPS, 59.5x faster, 65% of the roofline``."""
        if self.best is None:
            return "no result yet"
        parts = [describe_latency(self.best, self.flops)]
        if self.reference > 0:
            bound = "" if self.reference_complete else ">= "
            parts.append(bound + describe_speedup(self.reference / self.best))
        if 0 < self.roofline <= self.best:
            parts.append(f"{self.roofline / self.best:.0%} of the roofline")
        return ", ".join(parts)

    @property
    def trials_text(self) -> str:
        """How many candidates there were: ``31/64``."""
        return trials_text(self.trials, self.limit)

    @property
    def failures_text(self) -> str:
        """How many candidates failed, by status: ``2 wrong_result``; empty without any."""
        shown_apart = (Status.OK, Status.REJECTED)
        found = [(s, n) for s, n in sorted(self.counts.items()) if s not in shown_apart and n]
        return ", ".join(f"{count} {status}" for status, count in found)

    @property
    def skipped_text(self) -> str:
        """What was not measured: ``412 predicted slower, 14 rejected``; empty without any."""
        rejected = self.rejected + self.counts.get(Status.REJECTED, 0)
        parts = [
            f"{self.screened:,} predicted slower" if self.screened else "",
            f"{rejected:,} rejected" if rejected else "",
        ]
        return ", ".join(filter(None, parts))

    @property
    def busy_text(self) -> str:
        """What other work did: ``43% of 384 samples disturbed by other work, 31 repeated``.

        Empty if little.
        """
        return str(self.disturbance) if self.disturbance.busy else ""

    @property
    def shares(self) -> list[tuple[str, float]]:
        """What took the time, largest part first, as fractions of it."""
        total = sum(self.parts.values())
        # Before the first batch has ended, nothing is known of the parts.
        if total - self.parts.get("other", 0.0) < _SMALLEST_PART * total or total <= 0:
            return []
        shares = [(_PARTS.get(name, name), spent / total) for name, spent in self.parts.items()]
        shares = [(name, part) for name, part in shares if part >= _SMALLEST_PART]
        return sorted(shares, key=lambda share: -share[1])

    @property
    def shares_text(self) -> str:
        """The same as text: ``build 45%, run 30%``."""
        return ", ".join(f"{name} {part:.0%}" for name, part in self.shares)

    @property
    def time_text(self) -> str:
        """How long it took and will take: ``12 s, about 40 s left``."""
        return time_text(self.seconds, self.left)

    @property
    def line(self) -> str:
        """All of it as one line, for a log file."""
        parts = [f"{self.trials_text} trials"]
        if self.best is not None:
            parts.append(f"best {self.best_text}")
        skipped = self.skipped_text
        parts += [self.failures_text, f"skipped: {skipped}" if skipped else ""]
        busy = f"machine busy: {self.busy_text}" if self.busy_text else ""
        parts += [busy, self.report, self.time_text]
        head = f"{self.title}: {self.phase}; " if self.phase else f"{self.title}: "
        return head + "; ".join(filter(None, parts))


def trials_text(done: int, limit: int | None) -> str:
    """Return how many trials there were, of how many; earlier calls may have made more."""
    return str(done) if limit is None or done > limit else f"{done}/{limit}"


def time_text(spent: float, left: float | None) -> str:
    """Return how long something took and will take; a time left that is too short is not told."""
    if left is None or left < NO_TIME_LEFT:
        return duration(spent)
    return f"{duration(spent)}, about {duration(left)} left"


def duration(seconds: float) -> str:
    """Return seconds as people say them: ``8 s``, ``2 min 5 s``, ``1 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
