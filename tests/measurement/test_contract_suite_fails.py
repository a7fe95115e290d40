"""The contract suite itself: each broken measurer fails the test that is about it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence

import pytest

from schedlang.errors import SchedlangError
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.testing.measurers import UNBUILDABLE, MeasurerContract
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload

NEVER = structural_key(UNBUILDABLE)


class Sound(Measurer):
    """Runs nothing, and keeps the contract: the latency is made up of the work and the id."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            if time.monotonic() >= self.deadline:
                return
            yield self.measured(candidate)

    def measured(self, candidate: Candidate) -> Measurement:
        if structural_key(candidate.module) == NEVER:
            return Measurement(candidate.id, Status.BUILD_ERROR, message="it does not build")
        program = Workload(candidate.module, "candidate")
        if [arg.shape for arg in program.args] != [arg.shape for arg in self.workload.args]:
            return Measurement(candidate.id, Status.WRONG_RESULT, message="another workload")
        latency = 1e-9 * self.workload.flops * (1 + candidate.id % 7)
        self._note_best(found := Measurement(candidate.id, Status.OK, (latency,)))
        return found


class TestSound(MeasurerContract):
    @pytest.fixture
    def measurer(self) -> Sound:
        return Sound()


class NumbersThem(Sound):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for number, found in enumerate(super().measure(candidates)):
            yield Measurement(number, found.status, found.samples, found.message)


class LeavesOneOut(Sound):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        return super().measure(candidates[1:])


class MeasuresTwice(Sound):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        return itertools.chain(super().measure(candidates), super().measure(candidates))


class NoTime(Sound):
    def measured(self, candidate: Candidate) -> Measurement:
        found = super().measured(candidate)
        return Measurement(found.id, found.status, (math.inf,)) if found.ok else found


class Raises(Sound):
    def measured(self, candidate: Candidate) -> Measurement:
        found = super().measured(candidate)
        if not found.ok:
            raise SchedlangError(found.message)
        return found


class SaysNothing(Sound):
    def measured(self, candidate: Candidate) -> Measurement:
        found = super().measured(candidate)
        return found if found.ok else Measurement(found.id, found.status)


class EndsWithTheFirstFailure(Sound):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for found in super().measure(candidates):
            yield found
            if not found.ok:
                return


class NeedsCandidates(Sound):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        return iter([self.measured(candidates[0]), *super().measure(candidates[1:])])


class KeepsTheRest(Sound):
    queue: tuple[Candidate, ...] = ()

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.queue += tuple(candidates)
        while self.queue:
            first, *rest = self.queue
            self.queue = tuple(rest)
            yield self.measured(first)


class SortsFinals(Sound):
    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[Measurement]:
        found = super().remeasure(candidates, rounds, budget_seconds)
        return sorted(found, key=lambda measurement: measurement.id)


class UnevenFinals(Sound):
    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[Measurement]:
        found: list[Measurement] = []
        for number, candidate in enumerate(candidates):
            found += super().remeasure([candidate], rounds + number)
        return found


class EndlessFinals(Sound):
    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[Measurement]:
        return super().remeasure(candidates, rounds)


class NoRounds(Sound):
    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[Measurement]:
        return super().remeasure(candidates, max(rounds, 1), budget_seconds)


class FinalsAreTheBest(Sound):
    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[Measurement]:
        found = super().remeasure(candidates, rounds, budget_seconds)
        self.best_so_far = 0.0
        return found


class ReferenceIsACandidate(Sound):
    def _time_reference(self) -> float:
        [found] = self.measure([Candidate(0, self.workload.mod)])
        return found.latency


class ForgetsItsReference(Sound):
    def _time_reference(self) -> float:
        self.count = getattr(self, "count", 0) + 1
        return float(self.count)

    @property
    def reference_latency(self) -> float:
        return self._time_reference()


class NoReference(Sound):
    def _time_reference(self) -> float:
        return math.inf


class BestTooHigh(Sound):
    def measured(self, candidate: Candidate) -> Measurement:
        found = super().measured(candidate)
        self.best_so_far = 1.0
        return found


class StaysWhereItIs(Sound):
    def bind(self, workload: Workload) -> None:
        if not hasattr(self, "workload"):
            super().bind(workload)


class ForgetsEveryTime(Sound):
    def bind(self, workload: Workload) -> None:
        super().bind(workload)
        self.best_so_far = None


class KeepsTheBest(Sound):
    def bind(self, workload: Workload) -> None:
        best = self.best_so_far
        super().bind(workload)
        self.best_so_far = best


class KeepsTheReference(Sound):
    def bind(self, workload: Workload) -> None:
        latency = self._reference_latency
        super().bind(workload)
        self._reference_latency = latency


class NoDeadline(Sound):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        return map(self.measured, candidates)


class AfterTheDeadlineNothing(Sound):
    late = False

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.late |= time.monotonic() >= self.deadline
        return iter(()) if self.late else super().measure(candidates)


class KeyOfTheMoment(Sound):
    @property
    def key(self) -> str:
        return str(self.best_so_far)


class TimeRunsBack(Sound):
    seconds = {"run": 1.0}

    def measured(self, candidate: Candidate) -> Measurement:
        self.seconds = {"run": self.seconds["run"] - 1.0}
        return super().measured(candidate)


class ClosesOnce(Sound):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise SchedlangError("it is closed")
        self.closed = True


IDS = "test_every_candidate_has_one_measurement_with_its_id"
BAD = "test_a_bad_candidate_has_a_status_and_harms_no_other"
EMPTY = "test_nothing_to_measure"
ABANDONED = "test_an_abandoned_iteration_leaves_nothing_behind"
FINALS = "test_finals_give_equally_many_samples_in_the_order_given"
SHORT_FINALS = "test_finals_without_time_have_a_few_rounds"
ROUNDS = "test_finals_have_a_round_at_least"
REFERENCE = "test_the_unscheduled_program_has_a_latency_and_is_no_candidate"
BEST = "test_the_best_so_far_is_no_worse_than_what_was_measured"
BIND = "test_it_goes_over_to_another_workload"
DEADLINE = "test_after_the_deadline_nothing_is_measured"
PLAIN = "test_its_key_and_its_times_are_plain_values"
TUNE = "test_tune_works_with_it_to_the_end"
CLOSE = "test_it_closes_twice"

BROKEN: list[tuple[type[Sound], str]] = [
    (NumbersThem, IDS),
    (LeavesOneOut, IDS),
    (MeasuresTwice, IDS),
    (NoTime, IDS),
    (Raises, BAD),
    (SaysNothing, BAD),
    (EndsWithTheFirstFailure, BAD),
    (NeedsCandidates, EMPTY),
    (KeepsTheRest, ABANDONED),
    (SortsFinals, FINALS),
    (UnevenFinals, FINALS),
    (FinalsAreTheBest, FINALS),
    (EndlessFinals, SHORT_FINALS),
    (NoRounds, ROUNDS),
    (ReferenceIsACandidate, REFERENCE),
    (ForgetsItsReference, REFERENCE),
    (NoReference, REFERENCE),
    (BestTooHigh, BEST),
    (StaysWhereItIs, BIND),
    (ForgetsEveryTime, BIND),
    (KeepsTheBest, BIND),
    (KeepsTheReference, BIND),
    (NoDeadline, DEADLINE),
    (AfterTheDeadlineNothing, DEADLINE),
    (KeyOfTheMoment, PLAIN),
    (TimeRunsBack, PLAIN),
    (LeavesOneOut, TUNE),
    (ClosesOnce, CLOSE),
]

FAULTS = (AssertionError, ValueError, IndexError, SchedlangError, pytest.fail.Exception)


@pytest.mark.parametrize(
    ("broken", "test"), BROKEN, ids=[f"{cls.__name__}-{test}" for cls, test in BROKEN]
)
def test_a_broken_measurer_fails(broken: type[Sound], test: str) -> None:
    with pytest.raises(FAULTS):
        getattr(MeasurerContract(), test)(broken())
