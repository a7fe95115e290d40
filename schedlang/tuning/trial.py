"""One measured candidate, and where the run stands after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schedlang.database import Record
from schedlang.targets import Target
from schedlang.workloads.workload import Workload


class Gain(NamedTuple):
    """A moment at which a run found a faster program than before.

    ``trials`` counts the candidates until then, this one included. ``seconds`` is the wall time
    that the run had used; gains of earlier calls have that of the beginning of this call.
    ``latency`` is in seconds.
    """

    trials: int
    seconds: float
    latency: float


@dataclass(frozen=True)
class Trial:
    """What callbacks and stop rules are given after each candidate.

    Attributes
    ----------
    record: the candidate and its measurement; ``record.status`` says whether it failed.
    workload, target: what is tuned, and for which machine.
    trials: number of candidates so far, this one and those of earlier calls included. Candidates
        that were rejected before they ran do not count.
    seconds: wall time that the run has used, that of earlier calls included.
    begun: the part of ``seconds`` that earlier calls had used.
    gains: each moment at which the best latency fell, oldest first; earlier calls' included.
    reused: whether the database had the record, so that nothing was measured.
    doubts: each moment at which other work left it open whether the best latency fell, oldest
        first; their latencies are lower bounds.
    """

    record: Record
    workload: Workload = field(repr=False)
    target: Target = field(repr=False)
    trials: int
    seconds: float
    begun: float = 0.0
    gains: Sequence[Gain] = field(default=(), repr=False)
    reused: bool = False
    doubts: Sequence[Gain] = field(default=(), repr=False)

    @property
    def best(self) -> float:
        """The lowest latency so far in seconds, of programs that may win; infinite before any.

        Unless ``verify`` is False, programs may win whose results were compared.
        """
        return self.gains[-1].latency if self.gains else math.inf

    def best_before(self, *, trials: float | None = None, seconds: float | None = None) -> float:
        """Return what ``best`` was ``trials`` trials or ``seconds`` seconds ago."""
        latency = math.inf
        for gain in self.gains:
            if self._is_within(gain, trials, seconds):
                break
            latency = gain.latency
        return latency

    def in_doubt(self, *, trials: float | None = None, seconds: float | None = None) -> bool:
        """Whether one of the last ``trials``, or within ``seconds``, may be faster than ``best``.

        Other work on the machine disturbed its samples, and its lower bound is below ``best``.
        """
        return any(
            one.latency < self.best and self._is_within(one, trials, seconds)
            for one in reversed(self.doubts)
        )

    def _is_within(self, gain: Gain, trials: float | None, seconds: float | None) -> bool:
        return (trials is not None and gain.trials > self.trials - trials) or (
            seconds is not None and gain.seconds > self.seconds - seconds
        )
