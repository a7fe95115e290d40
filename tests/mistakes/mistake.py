"""A row of the table of mistakes, and what rows share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import schedlang as sl

WORKLOAD = sl.workloads.matmul(16, 16, 16)
CPU = sl.default_space("cpu")


@dataclass(frozen=True)
class Mistake:
    """What a newcomer does wrong, and how it is answered.

    Attributes
    ----------
    name: of the mistake.
    make: makes it, by the public API.
    kind: class of the error, or of the warning.
    said: part of the message: the wrong value, or the remedy.
    """

    name: str
    make: Callable[[], Any]
    kind: type[BaseException]
    said: str


class Measuring:
    """A measurer of a user's, which answers as it is told."""

    def __init__(self, answer: Callable[[Sequence[sl.Candidate]], Any]) -> None:
        self._answer = answer

    def measure(self, candidates: Sequence[sl.Candidate]) -> Any:
        return self._answer(candidates)


def right(candidate: sl.Candidate) -> sl.Measurement:
    """The answer that a measurer should give."""
    return sl.Measurement(candidate.id, sl.Status.OK, (1e-3 + candidate.id * 1e-6,), verified=True)


def tune(
    answer: Callable[[Sequence[sl.Candidate]], Any] = lambda given: map(right, given),
    **options: Any,
) -> sl.TuneResult:
    """Tune with a measurer that answers so; nothing is compiled."""
    given = {"trials": 4, "batch": 2, "finals": 0, "progress": False, **options}
    return sl.tune(WORKLOAD, measurer=Measuring(answer), **given)


def schedule() -> tuple[sl.Schedule, list[sl.LoopRV]]:
    """A schedule, and the loops of its block."""
    sch = sl.Schedule(WORKLOAD, seed=0)
    return sch, sch.get_loops("C")
