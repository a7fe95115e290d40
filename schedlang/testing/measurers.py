"""The contract of a measurer: subclass, give the fixture, and a new one is checked like ours.

class TestMine(MeasurerContract):
    @pytest.fixture
    def measurer(self):
        with MyMeasurer() as measurer:
            yield measurer

Where starting it takes long, the tests may share one: return that of a fixture of the module. The
suite binds the measurer to its workloads, small products of matrices, and measures schedules of
them. An object that has ``measure`` but is no ``Measurer`` is wrapped, as ``tune`` does; it needs
``bind`` as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from schedlang.measurement import (
    Candidate,
    Measurement,
    Measurer,
    Status,
    SupportsMeasure,
    as_measurer,
)
from schedlang.testing.spaces import EXTENT, ORDINARY, small_workload
from schedlang.tuning import tune
from schedlang.tvm.program import as_main, parse_script
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload

WORKLOAD = small_workload()
OTHER_WORKLOAD = matmul(EXTENT, 2 * EXTENT, 4 * EXTENT)
"""Its tensors have other shapes, and it takes longer."""

UNBUILDABLE = as_main(
    parse_script(
        f"""
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer(({EXTENT}, {EXTENT}), "float32"),
    B: T.Buffer(({EXTENT}, {EXTENT}), "float32"),
    C: T.Buffer(({EXTENT}, {EXTENT}), "float32"),
):
    T.evaluate(T.tvm_thread_allreduce(T.uint32(1), T.float32(0), True, C.data, 0, dtype="void"))
"""
    )
)
"""A program that no code generator can compile."""


def candidates(*ids: int, workload: Workload = WORKLOAD) -> list[Candidate]:
    """Make right schedules of a workload, a different one for each id."""
    return [Candidate(i, ORDINARY.sample(workload, seed=abs(i)).mod) for i in ids]


def bound(measurer: SupportsMeasure, workload: Workload = WORKLOAD) -> Measurer:
    """Bind a measurer to a workload; what it knew of the workload is forgotten."""
    found = as_measurer(measurer)
    found.deadline = math.inf
    found.bind(OTHER_WORKLOAD if workload is WORKLOAD else WORKLOAD)
    found.bind(workload)
    return found


def best_of(measurer: Measurer) -> float | None:
    """Return the best latency so far, which changes without an assignment."""
    return measurer.best_so_far


def by_id(found: list[Measurement]) -> dict[int, Measurement]:
    """Sort measurements by id; fails where two have the same."""
    assert len({m.id for m in found}) == len(found), "a candidate has two measurements"
    return {measurement.id: measurement for measurement in found}


def check_ok(measurement: Measurement) -> None:
    """Fail unless a measurement carries a latency."""
    assert measurement.status is Status.OK, f"{measurement.status}: {measurement.message}"
    assert measurement.samples
    assert all(seconds > 0 and math.isfinite(seconds) for seconds in measurement.samples)
    assert measurement.message == ""


def check_even(*measurements: Measurement) -> None:
    """Check that they have equally many samples, unless other work disturbed some."""
    known = [one.disturbance for one in measurements]
    if not any(one is not None and one.disturbed for one in known):
        assert len({len(one.samples) for one in measurements}) == 1


def check_failed(measurement: Measurement) -> None:
    """Fail unless a measurement says why there is no latency."""
    assert isinstance(measurement.status, Status) and not measurement.ok
    assert measurement.message and "\n" not in measurement.message
    with pytest.raises(ValueError, match="has no latency"):
        _ = measurement.latency


class MeasurerContract:
    """What every measurer does, whatever it measures on."""

    @pytest.fixture
    def measurer(self) -> Any:
        """A measurer that is open; it may be shared by the tests of the class."""
        pytest.fail(f"{type(self).__name__} must define the fixture `measurer`")

    def test_every_candidate_has_one_measurement_with_its_id(
        self, measurer: SupportsMeasure
    ) -> None:
        found = by_id(list(bound(measurer).measure(candidates(7, 0, 3))))
        assert sorted(found) == [0, 3, 7]
        for measurement in found.values():
            check_ok(measurement)

    def test_a_bad_candidate_has_a_status_and_harms_no_other(
        self, measurer: SupportsMeasure
    ) -> None:
        given = [*candidates(1), Candidate(2, UNBUILDABLE), *candidates(3)]
        found = by_id(list(bound(measurer).measure(given)))
        assert sorted(found) == [1, 2, 3]
        check_failed(found[2])
        check_ok(found[1])
        check_ok(found[3])

    def test_nothing_to_measure(self, measurer: SupportsMeasure) -> None:
        assert list(bound(measurer).measure([])) == []
        assert bound(measurer).remeasure([]) == []

    def test_an_abandoned_iteration_leaves_nothing_behind(self, measurer: SupportsMeasure) -> None:
        ready = bound(measurer)
        iteration = ready.measure(candidates(1, 2, 3))
        assert next(iteration).id in (1, 2, 3)
        iteration.close()  # type: ignore[attr-defined]
        assert sorted(by_id(list(ready.measure(candidates(4, 5))))) == [4, 5]

    def test_finals_give_equally_many_samples_in_the_order_given(
        self, measurer: SupportsMeasure
    ) -> None:
        ready = bound(measurer)
        ready.best_so_far = 1.0
        given = [*candidates(5), Candidate(9, UNBUILDABLE), *candidates(2)]
        first, bad, second = ready.remeasure(given, rounds=3)
        assert (first.id, bad.id, second.id) == (5, 9, 2)
        check_ok(first)
        check_ok(second)
        check_failed(bad)
        check_even(first, second)
        assert min(len(first.samples), len(second.samples)) >= 3
        assert ready.best_so_far == 1.0

    def test_finals_without_time_have_a_few_rounds(self, measurer: SupportsMeasure) -> None:
        first, second = bound(measurer).remeasure(candidates(1, 2), budget_seconds=0.0)
        check_even(first, second)
        assert all(2 <= len(one.samples) < 10 for one in (first, second))

    def test_finals_have_a_round_at_least(self, measurer: SupportsMeasure) -> None:
        with pytest.raises(ValueError, match="rounds=0"):
            bound(measurer).remeasure(candidates(1), rounds=0)

    def test_the_unscheduled_program_has_a_latency_and_is_no_candidate(
        self, measurer: SupportsMeasure
    ) -> None:
        ready = bound(measurer)
        ready.best_so_far = 1.0
        latency = ready.reference_latency
        assert 0 < latency < math.inf
        assert ready.reference_latency == latency
        assert ready.best_so_far == 1.0

    def test_the_best_so_far_is_no_worse_than_what_was_measured(
        self, measurer: SupportsMeasure
    ) -> None:
        ready = bound(measurer)
        assert best_of(ready) is None
        found = list(ready.measure(candidates(1, 2)))
        lowest = min(measurement.latency for measurement in found)
        assert (best_of(ready) or 0.0) <= lowest

    def test_it_goes_over_to_another_workload(self, measurer: SupportsMeasure) -> None:
        ready = bound(measurer)
        key, latency = ready.key, ready.reference_latency
        ready.best_so_far = 1.0
        ready.bind(small_workload())
        assert best_of(ready) == 1.0, "it is bound to an equal workload"
        ready.bind(OTHER_WORKLOAD)
        assert ready.workload is OTHER_WORKLOAD
        assert best_of(ready) is None
        assert ready.reference_latency != latency
        [measurement] = ready.measure(candidates(1, workload=OTHER_WORKLOAD))
        check_ok(measurement)
        [measurement] = ready.remeasure(candidates(1, workload=OTHER_WORKLOAD), rounds=2)
        check_ok(measurement)
        assert ready.key == key

    def test_after_the_deadline_nothing_is_measured(self, measurer: SupportsMeasure) -> None:
        ready = bound(measurer)
        ready.deadline = ready.clock.now() - 1
        found = by_id(list(ready.measure(candidates(1, 2, 3))))
        assert set(found) <= {1, 2, 3}
        for measurement in found.values():
            check_failed(measurement)
        ready.deadline = math.inf
        assert sorted(by_id(list(ready.measure(candidates(1, 2, 3))))) == [1, 2, 3]

    def test_its_key_and_its_times_are_plain_values(self, measurer: SupportsMeasure) -> None:
        ready = bound(measurer)
        key, before = ready.key, dict(ready.seconds)
        assert isinstance(key, str) and key
        for _ in ready.measure(candidates(1)):
            pass
        assert ready.key == key
        assert isinstance(ready.seconds, Mapping)
        for name, seconds in ready.seconds.items():
            assert isinstance(name, str) and seconds >= before.get(name, 0.0)

    def test_tune_works_with_it_to_the_end(self, measurer: SupportsMeasure) -> None:
        result = tune(
            WORKLOAD, space=ORDINARY, trials=4, search="random", measurer=measurer, progress=False
        )
        assert len(result.records) == 4
        assert result.best.finals is not None and result.reference_latency > 0

    def test_it_closes_twice(self, measurer: SupportsMeasure) -> None:
        """The last test: the measurer may be shared, and is closed."""
        ready = as_measurer(measurer)
        ready.close()
        ready.close()
