"""The base of all measurers, and objects that have ``measure`` only."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import pytest

import schedlang as sl
from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Measurement, Measurer, Status, as_measurer
from schedlang.testing.spaces import ORDINARY, small_workload

WORKLOAD = small_workload()
OTHER = sl.workloads.matmul(8, 8, 8)


class Scripted:
    """Every candidate has the next latency of its list; one without any fails."""

    def __init__(self, **latencies: list[float]) -> None:
        self.latencies = {int(name.strip("_")): list(given) for name, given in latencies.items()}
        self.calls: list[list[int]] = []

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.calls.append([candidate.id for candidate in candidates])
        for candidate in candidates:
            left = self.latencies.get(candidate.id, [])
            if left:
                yield Measurement(candidate.id, Status.OK, (left.pop(0),))
            else:
                yield Measurement(candidate.id, Status.CRASHED, message="it crashed")


class Subclass(Scripted, Measurer):
    """The same, as a subclass."""


def candidates(*ids: int) -> list[Candidate]:
    return [Candidate(identity, WORKLOAD.mod) for identity in ids]


@pytest.mark.parametrize("make", [Subclass, lambda **given: as_measurer(Scripted(**given))])
def test_finals_are_calls_of_measure_there_and_back(make: type[Subclass]) -> None:
    measurer = make(_1=[1.0, 2.0, 3.0], _2=[4.0, 5.0, 6.0])
    measurer.best_so_far = 0.5
    found = measurer.remeasure(candidates(2, 1, 3), rounds=3)
    assert [measurement.id for measurement in found] == [2, 1, 3]
    assert [measurement.samples for measurement in found] == [(4.0, 5.0, 6.0), (1.0, 2.0, 3.0), ()]
    assert found[2].status is Status.CRASHED
    assert measurer.best_so_far == 0.5
    given = getattr(measurer, "_given", measurer)
    assert given.calls == [[2, 1, 3], [1, 2], [2, 1]]


def test_a_candidate_that_fails_later_is_left_out() -> None:
    measurer = Subclass(_1=[1.0, 2.0], _2=[4.0, 5.0, 6.0])
    first, second = measurer.remeasure(candidates(1, 2), rounds=3)
    assert first == Measurement(1, Status.CRASHED, message="it crashed")
    assert second.samples == (4.0, 5.0, 6.0)


def test_without_time_there_are_two_rounds() -> None:
    measurer = Subclass(_1=[1.0] * 9)
    assert measurer.remeasure(candidates(1), budget_seconds=0.0)[0].samples == (1.0, 1.0)
    with pytest.raises(ValueError, match="rounds=0; give 1 or more"):
        measurer.remeasure(candidates(1), rounds=0)


def test_a_round_that_the_deadline_cuts_off_does_not_count() -> None:
    class Late(Scripted):
        def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
            whole = len(self.calls) < 2
            return iter(list(super().measure(candidates))[: None if whole else 1])

    first, second = as_measurer(Late(_1=[1.0] * 9, _2=[2.0] * 9)).remeasure(candidates(1, 2))
    assert (first.samples, second.samples) == ((1.0, 1.0), (2.0, 2.0))
    measurer = as_measurer(Scripted(_1=[1.0]))
    measurer.deadline = time.monotonic() - 1
    assert measurer.remeasure(candidates(1)) == [], "nothing can be said of it"


def test_the_unscheduled_program_is_measured_once_for_each_workload() -> None:
    measurer = as_measurer(Scripted(_1=[]))
    measurer._given.latencies[-1] = [3.0, 4.0]  # type: ignore[attr-defined]
    measurer.bind(WORKLOAD)
    measurer.best_so_far = 1.0
    assert measurer.reference_latency == measurer.reference_latency == 3.0
    measurer.bind(WORKLOAD)
    assert measurer.best_so_far == 1.0 and measurer.reference_latency == 3.0


def test_another_workload_forgets_the_first() -> None:
    measurer = Subclass()
    measurer.latencies[-1] = [3.0, 4.0]
    measurer.bind(WORKLOAD)
    measurer.best_so_far = 1.0
    assert measurer.reference_latency == 3.0
    measurer.bind(OTHER)
    assert measurer.workload is OTHER and measurer.best_so_far is None
    assert measurer.reference_latency == 4.0
    measurer.bind(WORKLOAD)
    with pytest.raises(TargetError, match="unscheduled program cannot be timed: it crashed"):
        _ = measurer.reference_latency


def test_the_defaults_of_what_has_measure_only() -> None:
    measurer = as_measurer(Scripted(_1=[1.0], _2=[1.0]))
    assert measurer.key == "Scripted" and dict(measurer.seconds) == {}
    assert measurer.deadline == math.inf and measurer.best_so_far is None
    measurer.deadline = time.monotonic() - 1
    assert list(measurer.measure(candidates(1, 2))) == []
    measurer.bind(WORKLOAD)
    assert math.isnan(measurer.reference_latency)
    measurer.deadline = math.inf
    assert len(list(measurer.measure(candidates(1, 2)))) == 2
    measurer.close()
    with pytest.raises(TypeError, match="Scripted measures .* only; to measure matmul as well"):
        measurer.bind(OTHER)


def test_what_it_has_is_used() -> None:
    class Whole(Scripted):
        key = "whole"
        seconds = {"run": 2.0}
        deadline = 5.0
        best_so_far = 3.0
        reference_latency = 7.0
        closed = bound = 0

        def bind(self, workload: sl.Workload) -> None:
            self.bound += 1

        def close(self) -> None:
            self.closed += 1

        def remeasure(
            self, candidates: Sequence[Candidate], rounds: int, budget_seconds: float
        ) -> list[Measurement]:
            return [
                Measurement(one.id, Status.OK, (budget_seconds,) * rounds) for one in candidates
            ]

    given = Whole()
    with as_measurer(given) as measurer:
        assert (measurer.key, measurer.seconds, measurer.deadline) == ("whole", {"run": 2.0}, 5.0)
        assert (measurer.best_so_far, measurer.reference_latency) == (3.0, 7.0)
        measurer.bind(WORKLOAD)
        measurer.bind(OTHER)
        assert measurer.best_so_far is given.best_so_far is None
        measurer.deadline, measurer.best_so_far = 6.0, 4.0
        assert measurer.remeasure([Candidate(9, OTHER.mod)], 2, 0.5)[0].samples == (0.5, 0.5)
    assert (given.deadline, given.best_so_far, given.closed, given.bound) == (6.0, 4.0, 1, 2)
    assert as_measurer(measurer) is measurer


def test_what_cannot_measure_is_refused() -> None:
    with pytest.raises(TypeError, match="measurer=7 has no method measure"):
        as_measurer(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="measurer=Scripted is a class; give an instance"):
        as_measurer(Scripted)  # type: ignore[arg-type]


def test_tune_needs_nothing_but_measure() -> None:
    class Quick:
        def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
            for candidate in candidates:
                yield Measurement(candidate.id, Status.OK, (1.0 + candidate.id % 5,), verified=True)

    result = sl.tune(WORKLOAD, space=ORDINARY, trials=8, measurer=Quick(), progress=False)
    assert result.best.finals is not None and len(result.records) == 8
    assert result.reference_latency == 5.0
