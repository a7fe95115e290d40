"""The measurer protocol: what runs candidates, and what ``tune`` uses of it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Self

from schedlang.errors import TargetError
from schedlang.measurement.measurement import Candidate, Measurement, Status
from schedlang.workloads.workload import Workload

FEWEST_ROUNDS = 2
"""With fewer rounds, the order of two candidates is a matter of luck."""

ROUNDS = 30
"""Default number of samples of each candidate in ``remeasure``."""

BUDGET_SECONDS = 10.0
"""Default wall time of ``remeasure``."""

_REFERENCE_ID = -1


class Measurer(ABC):
    """Measures candidates for one workload on one kind of machine.

    A subclass implements ``measure``; the base gives the rest. ``tune`` calls ``bind`` before
    anything else. Override ``bind`` to prepare for the workload (call ``super().bind`` first),
    ``remeasure`` and ``reference_latency`` where the machine can do better than the base, and
    ``close`` where something must be stopped. An object that has ``measure`` but does not subclass
    this works in ``tune`` as well: see ``as_measurer``.

    Attributes
    ----------
    workload: the program before scheduling; candidates must compute what it computes. ``bind``
        sets it.
    deadline: time of ``time.monotonic`` at which ``measure`` stops; a candidate that was not
        measured by then gets no measurement, or a failed one. Infinite by default.
    best_so_far: lowest latency measured for the workload, in seconds; a measurer may give up on
        candidates that are surely slower. None where nothing is known.
    seconds: wall time spent so far, in seconds, by activity (``start``, ``build``, ``run``, ...).
        Empty where the measurer does not keep it.
    """

    workload: Workload
    deadline: float = math.inf
    best_so_far: float | None = None
    seconds: Mapping[str, float] = MappingProxyType({})
    _reference: float | None = None

    @property
    def key(self) -> str:
        """Text that is equal for measurers whose latencies compare; the class's name by default."""
        return type(self).__name__

    def bind(self, workload: Workload) -> None:
        """Measure candidates of ``workload`` from now on.

        Takes well under a second. Forgets ``best_so_far`` and the reference latency, unless the
        measurer is bound to an equal workload already.
        """
        if getattr(self, "workload", None) == workload:
            return
        self.workload = workload
        self.best_so_far = None
        self._reference = None

    @abstractmethod
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        Measurements are matched by ``id``. A bad candidate never raises: it ends with a status.
        """

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, one sample of each per round.

        Returns one measurement per candidate, in the same order. All that are OK have equally many
        samples. The base calls ``measure`` once per round, in alternating order, and takes each
        latency as one sample; it stops after ``rounds``, or after the first round that ends later
        than ``budget_seconds``, but not before two. A candidate that fails in any round is left
        out of the next ones. Raises ValueError when ``rounds`` is below 1.
        """
        check_rounds(rounds)
        best, found = self.best_so_far, dict[int, Measurement]()
        samples: dict[int, list[float]] = {candidate.id: [] for candidate in candidates}
        alive, end = list(candidates), time.monotonic() + budget_seconds
        try:
            for number in range(rounds):
                if not alive or (number >= FEWEST_ROUNDS and time.monotonic() >= end):
                    break
                # There and back: what changes steadily within a round then favours none.
                order = alive if number % 2 == 0 else alive[::-1]
                self.best_so_far = None  # a candidate is not given up for being slow
                taken = {measurement.id: measurement for measurement in self.measure(order)}
                if number and len(taken) < len(alive):
                    break  # the deadline came within the round
                for candidate in alive:
                    measurement = taken.get(candidate.id) or _unmeasured(candidate)
                    if number == 0 or not measurement.ok:
                        found[candidate.id] = measurement
                    if measurement.ok:
                        samples[candidate.id].append(measurement.latency)
                alive = [candidate for candidate in alive if found[candidate.id].ok]
        finally:
            self.best_so_far = best
        return [_with_samples(found[c.id], samples[c.id]) for c in candidates]

    @property
    def reference_latency(self) -> float:
        """Median latency of the unscheduled program, in seconds; measured when first asked for.

        NaN where the deadline came first. The base measures the program as a candidate. Raises
        ``TargetError`` when it cannot be measured.
        """
        if self._reference is None:
            best, self.best_so_far = self.best_so_far, None
            try:
                found = list(self.measure([Candidate(_REFERENCE_ID, self.workload.mod)]))
            finally:
                self.best_so_far = best
            if not found:
                return math.nan
            if not found[0].ok:
                reason = found[0].message or found[0].status
                raise TargetError(f"the unscheduled program cannot be timed: {reason}")
            self._reference = found[0].latency
        return self._reference

    def close(self) -> None:  # noqa: B027 (optional)
        """Stop what the measurer started; safe to call twice. The base has nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def check_rounds(rounds: int) -> None:
    """ValueError unless ``rounds`` is 1 or more."""
    if rounds < 1:
        raise ValueError(f"rounds={rounds}; give 1 or more")


def _unmeasured(candidate: Candidate) -> Measurement:
    return Measurement(
        candidate.id, Status.RUN_TIMEOUT, message="the deadline came before it was measured"
    )


def _with_samples(measurement: Measurement, samples: Sequence[float]) -> Measurement:
    return replace(measurement, samples=tuple(samples)) if measurement.ok else measurement
