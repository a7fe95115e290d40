"""Measurers that do not subclass ``Measurer``: what they lack is supplied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from schedlang.measurement.clock import clock_of
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.measurement.measurement import Candidate, Measurement
from schedlang.measurement.measurer import Measurer
from schedlang.measurement.protocol import check_measurer, checked_measurements

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload


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
