"""The measurer protocol: what runs candidates, and what ``tune`` uses of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from schedlang.errors import TargetError
from schedlang.measurement.clock import SYSTEM, Clock, clock_of
from schedlang.measurement.contest import BUDGET_SECONDS, FEWEST_ROUNDS, ROUNDS, interleave
from schedlang.measurement.measurement import Candidate, Measurement
from schedlang.measurement.protocol import check_measurer, checked_measurements

if TYPE_CHECKING:
    from schedlang.measurement.problem import Problem
    from schedlang.workloads.workload import Workload


REFERENCE_ID = -1
"""The id under which the unscheduled program is measured."""
DEFAULT_ID = -2
"""The id under which the default schedule is measured, where no search proposed it."""


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
    kept: whether ``schedlang.measurer`` made it, to stay between calls: each call gives it its
        problem, by ``bind(workload, problem)``, and it is no part of the identity of a run.
    kept_for: key of the target that a kept one measures for.
    machine_key: what records name as their machine, in place of the key of the call's target.
        Latencies that no machine of that key has, such as simulated ones, need one of their own:
        look-ups and other runs then do not take them. Empty for the target's key.
    clock: tells the time to the session that measures with it; a simulator brings its own.
    deadline: time of ``clock`` at which ``measure`` and ``remeasure`` stop; a candidate that was
        not measured by then gets no measurement, or a failed one. Infinite by default.
    best_so_far: lowest latency measured for the workload, in seconds; a measurer may give up on
        candidates that are surely slower. None where nothing is known.
    reference_complete: whether ``reference_latency`` is a finished measurement; False where it was
        cut off, and the latency is then a lower bound. It is known after the latency.
    parallel: number of candidates that it works on at the same time; ``tune`` asks searches for
        larger batches where it is large.
    elsewhere: whether it measures on other machines, so that what else runs on this one does not
        matter.
    seconds: wall time spent so far, in seconds, by activity (``start``, ``build``, ``run``, ...).
        Empty where the measurer does not keep it.
    """

    workload: Workload
    kept: bool = False
    kept_for: str = ""
    machine_key: str = ""
    clock: Clock = SYSTEM
    deadline: float = math.inf
    best_so_far: float | None = None
    reference_complete: bool = True
    parallel: int = 1
    elsewhere: bool = False
    seconds: Mapping[str, float] = MappingProxyType({})
    _reference_latency: float = math.nan
    _reserving: Lock

    @property
    def key(self) -> str:
        """Text that is equal for measurers whose latencies compare; the class's name by default."""
        return type(self).__name__

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take, one line for each.

        Results are not compared there. Empty where the measurer does not know.
        """
        return ()

    def bind(self, workload: Workload) -> None:
        """Measure candidates of ``workload`` from now on.

        Takes well under a second. Forgets ``best_so_far`` and the reference latency, unless the
        measurer is bound to an equal workload already.
        """
        if getattr(self, "workload", None) != workload:
            self._forget(workload)

    def _forget(self, workload: Workload) -> None:
        """Begin with a workload of which nothing is known."""
        self.workload = workload
        self.best_so_far = None
        self._reference_latency = math.nan
        self.reference_complete = True

    @abstractmethod
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        Measurements are matched by ``id``. A bad candidate never raises: it ends with a status.
        """

    def checked(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Measure and check the measurements, see ``checked_measurements`` for the errors."""
        what = f"{type(self).__name__}.measure"
        yield from checked_measurements(what, self.measure(candidates), candidates)

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, one sample of each per round.

        Returns one measurement per candidate, in the same order. All that are OK have a sample of
        each round, but for those that other work is known to have disturbed. The base calls
        ``measure`` once per round, in alternating order, and takes each latency as one sample; it
        stops after ``rounds``, after fewer where it is certain which is the fastest, or after the
        first round that ends later than ``budget_seconds``, but not before two. A candidate that
        fails in any round is left out of the next ones. Where ``deadline`` comes before two rounds,
        nothing is known, and the list is empty. Raises ValueError when ``rounds`` is below 1.
        """
        best, by_id = self.best_so_far, {candidate.id: candidate for candidate in candidates}

        def take_round(order: Sequence[int]) -> Iterator[Measurement]:
            self.best_so_far = None  # no candidate is given up for being slow
            return self.checked([by_id[identity] for identity in order])

        try:
            found = interleave(list(by_id), take_round, rounds, budget_seconds, clock=self.clock)
        finally:
            self.best_so_far = best
        return self._compared(candidates, found, rounds)

    def _compared(
        self, candidates: Sequence[Candidate], found: Mapping[int, Measurement], rounds: int
    ) -> list[Measurement]:
        """Return what was found of each; nothing where the deadline came before two rounds."""
        rounds_done = max((len(one.samples) for one in found.values() if one.ok), default=0)
        if rounds_done < min(FEWEST_ROUNDS, rounds) and self.clock.now() >= self.deadline:
            return []
        return [found[candidate.id] for candidate in candidates]

    @property
    def reference_latency(self) -> float:
        """Median latency of the unscheduled program, in seconds; measured when first asked for.

        NaN where the deadline came first. Raises ``TargetError`` when it cannot be measured.
        """
        if math.isnan(self._reference_latency):
            self._reference_latency = self._time_reference()
        return self._reference_latency

    def _time_reference(self) -> float:
        """Measure the unscheduled program, in seconds; the base does it as for any candidate."""
        best, self.best_so_far = self.best_so_far, None
        try:
            found = list(self.checked([Candidate(REFERENCE_ID, self.workload.mod)]))
        finally:
            self.best_so_far = best
        if not found:
            return math.nan
        if not found[0].ok:
            reason = found[0].message or found[0].status
            raise TargetError(f"the unscheduled program cannot be timed: {reason}")
        return found[0].latency

    @contextmanager
    def reserved(self) -> Iterator[Self]:
        """Reserve a kept measurer for one call; TargetError where another call has it."""
        if not self.kept:
            yield self
            return
        if not self._reserving.acquire(blocking=False):
            raise TargetError(
                "this measurer is in use: it serves one call at a time; make another one with "
                "schedlang.measurer, or let the call that has it end"
            )
        try:
            yield self
        finally:
            self._reserving.release()

    def keep(self, target_key: str) -> None:
        """Make it a kept one, for the target with this key."""
        self.kept, self.kept_for, self._reserving = True, target_key, Lock()

    def _note_best(self, measurement: Measurement) -> None:
        """Keep the latency of a measurement that is OK if it is the lowest so far."""
        if self.best_so_far is None or measurement.latency < self.best_so_far:
            self.best_so_far = measurement.latency

    def close(self) -> None:  # noqa: B027 (optional)
        """Stop what the measurer started; safe to call twice. The base has nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def bind_to_call(measurer: Measurer, workload: Workload, problem: Problem) -> None:
    """Bind a measurer to the workload of a call, and a kept one to its problem too."""
    if measurer.kept:
        measurer.bind(workload, problem)  # type: ignore[call-arg]
    else:
        measurer.bind(workload)


# -- Measurers that do not subclass Measurer: what they lack is supplied --------------------------


@runtime_checkable
class SupportsMeasure(Protocol):
    """An object with the one method that a measurer must have."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish."""
        ...


def as_measurer(given: SupportsMeasure) -> Measurer:
    """Return ``given`` itself if it is a ``Measurer``, else one that measures with it.

    ``given`` needs ``measure``. Other members of ``Measurer`` that it has are used; ``Measurer``
    supplies those that it lacks. Between two measurements the deadline is kept for it. Without
    ``bind`` it measures one workload only. Raises TypeError for an object without ``measure``, and
    for one with a member that cannot be used: see ``check_measurer``.
    """
    check_measurer(given)
    return given if isinstance(given, Measurer) else _Adapter(given)


class _Adapter(Measurer):
    """Measures with an object that has some members of ``Measurer``."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.clock = clock_of(given)
        self._best: float | None = None
        self._deadline = math.inf

    def __repr__(self) -> str:
        return f"as_measurer({self._given!r})"

    @property
    def key(self) -> str:
        return str(getattr(self._given, "key", type(self._given).__name__))

    @property
    def machine_key(self) -> str:  # type: ignore[override]
        return str(getattr(self._given, "machine_key", ""))

    @property
    def seconds(self) -> Mapping[str, float]:  # type: ignore[override]
        found = getattr(self._given, "seconds", None)
        return found if isinstance(found, Mapping) else {}

    @property
    def parallel(self) -> int:  # type: ignore[override]
        found = getattr(self._given, "parallel", 1)
        return found if isinstance(found, int) else 1

    @property
    def best_so_far(self) -> float | None:
        best: float | None = getattr(self._given, "best_so_far", self._best)
        return best

    @best_so_far.setter
    def best_so_far(self, seconds: float | None) -> None:
        self._best = seconds
        if hasattr(self._given, "best_so_far"):
            self._given.best_so_far = seconds

    @property
    def deadline(self) -> float:
        deadline: float = getattr(self._given, "deadline", self._deadline)
        return deadline

    @deadline.setter
    def deadline(self, moment: float) -> None:
        self._deadline = moment
        if hasattr(self._given, "deadline"):
            self._given.deadline = moment

    @property
    def unreached(self) -> Sequence[str]:
        return tuple(map(str, getattr(self._given, "unreached", ())))

    def bind(self, workload: Workload) -> None:
        has = getattr(self, "workload", getattr(self._given, "workload", None))
        if hasattr(self._given, "bind"):
            self._given.bind(workload)
        elif has is not None and has != workload:
            raise TypeError(
                f"{type(self._given).__name__} measures {has.name} only; to measure "
                f"{workload.name} as well it needs a method bind(workload)"
            )
        super().bind(workload)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        if self._late():
            return
        what = f"{type(self._given).__name__}.measure"
        for measurement in checked_measurements(what, self._given.measure(candidates), candidates):
            yield measurement
            if self._late():
                return

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        if not hasattr(self._given, "remeasure"):
            return super().remeasure(candidates, rounds, budget_seconds)
        found = self._given.remeasure(candidates, rounds=rounds, budget_seconds=budget_seconds)
        what = f"{type(self._given).__name__}.remeasure"
        return list(checked_measurements(what, found, candidates))

    def _time_reference(self) -> float:
        found: float | None = getattr(self._given, "reference_latency", None)
        if found is None:
            return super()._time_reference()
        self.reference_complete = bool(getattr(self._given, "reference_complete", True))
        return found

    def close(self) -> None:
        if hasattr(self._given, "close"):
            self._given.close()

    def _late(self) -> bool:
        return self.clock.now() >= self.deadline
