"""The measurer of a session: what it is bound to, and what it spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

import schedlang as sl
from schedlang.errors import WorkloadError
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.measurement.problem import Problem
from schedlang.search import Random
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.measuring import Measuring

A, B = small_workload(), sl.workloads.matmul(16, 32, 8)


class Played(Measurer):
    """Refuses one workload, as documented: after the base has taken it."""

    def __init__(self) -> None:
        self.seconds = {"run": 5.0}

    def bind(self, workload: sl.Workload) -> None:  # type: ignore[override]
        super().bind(workload)
        if workload == B:
            raise WorkloadError("too large")

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            yield Measurement(candidate.id, Status.OK, (1e-3,))


def test_a_measurer_that_refused_a_workload_is_bound_again() -> None:
    measurer = Played()
    with ExitStack() as stack:
        measuring = Measuring(measurer, sl.Target("cpu"), Problem(), stack)
        measuring.on(A)
        with pytest.raises(WorkloadError, match="too large"):
            measuring.on(B)
        measuring.on(A)
    assert measurer.workload == A


def test_seconds_are_those_of_the_session() -> None:
    measurer = Played()
    with ExitStack() as stack:
        measuring = Measuring(measurer, sl.Target("cpu"), Problem(), stack)
        measurer.seconds["run"] += 2.0
        measurer.seconds["build"] = 1.0
        assert measuring.seconds == {"run": 2.0, "build": 1.0}


def test_without_a_database_a_search_need_not_be_saved() -> None:
    class Unsaved(Random):
        def save(self) -> str:
            raise RuntimeError("cannot be saved")

    search = Unsaved(ORDINARY, A, 0)
    result = sl.tune(
        A, search=search, space=ORDINARY, trials=3, finals=0, progress=False, measurer=Played()
    )
    assert len(result.records) == 3
