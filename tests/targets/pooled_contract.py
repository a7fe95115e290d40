"""The contract of measurers with workers: what good and bad programs come to on each kind."""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from tvm.ir import IRModule

from schedlang import workloads
from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.problem import Problem
from schedlang.once import LastUsed
from schedlang.targets import PooledMeasurer, TimingPolicy
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.preparation import LargePolicy
from schedlang.targets.worker.protocol import Reply
from schedlang.testing.measurers import MeasurerContract
from schedlang.tuning import tune
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets import programs
from tests.targets.programs import from_body, indexed, matmul_variant, scheduled_matmul

QUICK = TimingPolicy(min_repeats=2, max_repeats=3)
WRONG = matmul_variant("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]")
WORKLOAD = programs.matmul()
OTHER = workloads.matmul(16, 24, 8)
GOOD = scheduled_matmul(WORKLOAD)
ALL = Problem(verify="all")


def never_a_number() -> Workload:
    signature = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")'
    body = """
for i in T.serial(8):
    with T.sblock("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = T.log(T.float32(-1) - A[vi] * A[vi])
"""
    return from_prim_func(from_body(body, signature)["main"])


def measured(measurer: PooledMeasurer, *modules: IRModule) -> dict[int, Measurement]:
    candidates = [Candidate(number, module) for number, module in enumerate(modules)]
    found = list(measurer.measure(candidates))
    assert sorted(measurement.id for measurement in found) == list(range(len(modules)))
    return {measurement.id: measurement for measurement in found}


def pools(measurer: PooledMeasurer) -> list[WorkerPool]:
    executor = measurer._executor
    return list({id(pool): pool for pool in (executor.builders, executor.runners)}.values())


def workers(measurer: PooledMeasurer, *, warm: bool = False) -> set[int]:
    """The process ids of its workers; of all that there may be, and ready, if it is to ``warm``."""
    if warm:
        assert all(pool.start_all(math.inf) for pool in pools(measurer))
    slots = [slot for pool in pools(measurer) for slot in pool.slots]
    return {slot.process.pid for slot in slots if slot.process is not None}


def built_files(measurer: PooledMeasurer) -> list[str]:
    scratch = measurer._executor.scratch
    return [] if scratch is None else [path.name for path in scratch.path.glob("candidate*")]


class PooledContract(MeasurerContract):
    """What they do besides, whatever runs their programs. The tests of a class share a measurer.

    Attributes
    ----------
    crash: what is said of a program that crashes, as a regular expression.
    bad_inputs: what is said of an unscheduled program that crashes.
    most_rounds: finals take up to this many times the rounds that are asked for.
    """

    crash = "the worker ended with SIGABRT$"
    bad_inputs = (
        r"the unscheduled program crashed on random inputs: integer division by zero \(SIGFPE\); "
    )
    most_rounds = 4

    @pytest.fixture
    def ready(self, measurer: PooledMeasurer) -> PooledMeasurer:
        """The measurer, which verifies all schedules of ``WORKLOAD``."""
        measurer.deadline = math.inf
        measurer.bind(WORKLOAD, ALL)
        return measurer

    def runs(self, measurer: PooledMeasurer) -> int:
        """Return how many programs it has run."""
        return measurer._verify.measured

    def test_right_schedules_are_measured_and_verified(self, ready: PooledMeasurer) -> None:
        ready.best_so_far, runs = None, self.runs(ready)
        found = measured(ready, *(scheduled_matmul(WORKLOAD, tile) for tile in (1, 2, 4, 8)))
        executor, lanes = ready._executor, defaultdict(list)
        building, running = (
            [pool.first + number for number in range(pool.size)]
            for pool in (executor.builders, executor.runners)
        )
        for measurement in found.values():
            assert measurement.status is Status.OK, measurement.message
            assert measurement.verified and measurement.latency > 0
            assert measurement.build_seconds > 0 and measurement.run_seconds > 0
            assert measurement.message == measurement.stderr == ""
            phases = measurement.phases
            # A program that other work disturbed may run again.
            again = ["run", "verify"] * (len(phases) // 2)
            assert [one.activity for one in phases] == ["build", *again] and again
            assert all(before.begin <= after.begin for before, after in pairwise(phases))
            spent = sum(one.end - one.begin for one in phases)
            limit = measurement.build_seconds + measurement.run_seconds
            assert 0 < spent and (spent <= limit or not executor.in_lane)
            assert measurement.worker in running
            places = [measurement.worker if p.worker is None else p.worker for p in phases]
            assert places[0] in building
            for place, phase in zip(places, phases, strict=True):
                lanes[place].append((phase.begin, phase.end))
        for times in lanes.values():
            assert all(one[1] <= next_one[0] + 1e-3 for one, next_one in pairwise(sorted(times)))
        fastest = min(found.values(), key=lambda measurement: measurement.latency)
        assert ready.best_so_far == fastest.latency
        # One that is surely slower has fewer, and those that other work disturbed do not count.
        known = fastest.disturbance
        taken = len(fastest.samples) if known is None else known.undisturbed + known.disturbed
        assert taken >= QUICK.min_repeats
        assert self.runs(ready) - runs == len(found)

    def test_a_wrong_result(self, ready: PooledMeasurer) -> None:
        found = measured(ready, GOOD, WRONG)
        assert found[0].ok and found[0].verified
        assert found[1].status is Status.WRONG_RESULT and found[1].samples == ()
        assert re.search(r"\d{4} of 4096 elements differ", found[1].message)

    def test_what_is_verified_changes_with_the_problem(self, ready: PooledMeasurer) -> None:
        ready.bind(WORKLOAD, Problem())
        assert measured(ready, GOOD)[0].verified
        ready.bind(WORKLOAD, Problem(verify=False))
        found = measured(ready, GOOD, WRONG)
        assert [(one.ok, one.verified) for one in found.values()] == [(True, False)] * 2

    def test_what_does_not_build(self, ready: PooledMeasurer) -> None:
        found = measured(ready, from_body(programs.UNBUILDABLE), GOOD)
        assert found[0].status is Status.BUILD_ERROR
        assert "reduce_combiner" in found[0].message and "\n" not in found[0].message
        assert found[1].ok

    def test_a_crash(self, ready: PooledMeasurer) -> None:
        found = measured(ready, GOOD, from_body(programs.ABORT), GOOD)
        assert found[1].status is Status.CRASHED
        assert re.match(self.crash, found[1].message)
        assert found[0].ok and found[2].ok

    def test_a_run_that_does_not_end(self, ready: PooledMeasurer) -> None:
        found = measured(ready, from_body(programs.SLEEP), GOOD)
        assert found[0].status is Status.RUN_TIMEOUT
        assert found[0].message == "not done within 2 s"
        assert found[1].ok

    def test_a_killed_worker_is_replaced(self, ready: PooledMeasurer) -> None:
        """It costs no candidate where the worker has run another, which may have damaged it."""
        assert all(one.ok for one in measured(ready, GOOD, GOOD).values())
        idle = [slot for pool in pools(ready) for slot in pool.slots if slot.idle]
        used = [slot for slot in idle if slot.used]
        killed = {slot.process.pid for slot in used or idle if slot.process is not None}
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        for measurement in measured(ready, GOOD, GOOD).values():
            assert measurement.ok or (
                not used
                and measurement.status is Status.OUT_OF_MEMORY
                and "SIGKILL" in measurement.message
            )
        assert all(one.ok for one in measured(ready, GOOD, GOOD).values())
        assert killed and not killed & workers(ready)

    def test_an_abandoned_iteration_leaves_nothing_behind(self, ready: PooledMeasurer) -> None:
        iteration = ready.measure([Candidate(number, GOOD) for number in range(4)])
        assert next(iteration).ok
        iteration.close()  # type: ignore[attr-defined]
        assert not (ready._stages.building or ready._stages.running)
        for slot in (slot for pool in pools(ready) for slot in pool.slots):
            assert slot.request is None or slot.starting
            assert slot.idle or not ready._executor.in_lane
        assert all(one.ok for one in measured(ready, GOOD, GOOD).values())

    def test_at_the_deadline_what_runs_is_dropped(self, ready: PooledMeasurer) -> None:
        ready.deadline = time.monotonic() + 0.5
        assert len(list(ready.measure([Candidate(number, GOOD) for number in range(200)]))) < 200
        assert not (ready._stages.building or ready._stages.running)
        assert list(ready.measure([Candidate(0, GOOD)])) == []
        assert ready.remeasure([Candidate(0, GOOD)]) == []
        ready.deadline = math.inf
        assert not built_files(ready)
        assert measured(ready, GOOD)[0].ok

    def test_finals_verify_and_leave_no_files(self, ready: PooledMeasurer) -> None:
        modules = [GOOD, from_body(programs.ABORT), scheduled_matmul(WORKLOAD, 1), WRONG]
        candidates = [Candidate(7 - number, module) for number, module in enumerate(modules)]
        best, first, crash, second, wrong = ready.best_so_far, *ready.remeasure(candidates, 3)
        assert [one.id for one in (first, crash, second, wrong)] == [7, 6, 5, 4]
        assert first.verified and second.verified
        assert 3 <= len(first.samples) == len(second.samples) <= 3 * self.most_rounds
        assert crash.status is Status.CRASHED and wrong.status is Status.WRONG_RESULT
        assert ready.best_so_far == best
        assert not built_files(ready)

    def test_the_unscheduled_program_is_not_counted(self, ready: PooledMeasurer) -> None:
        best, runs = ready.best_so_far, ready._verify.measured
        assert ready.reference_latency == ready.reference_latency > 0
        assert (ready.best_so_far, ready._verify.measured) == (best, runs)

    def test_running_workers_go_over_to_another_workload(self, ready: PooledMeasurer) -> None:
        assert all(one.verified for one in measured(ready, GOOD, GOOD).values())
        before = workers(ready, warm=True)
        ready.bind(OTHER)
        assert ready.workload is OTHER and ready.best_so_far is None
        found = measured(ready, OTHER.mod, OTHER.mod)
        assert all(one.verified for one in found.values()), found
        assert ready.reference_latency > 0
        # Several at once: the workers are not lost while they are on their way.
        for there in (WORKLOAD, OTHER, WORKLOAD):
            ready.bind(there)
        found = measured(ready, GOOD, WRONG, GOOD)
        assert found[0].verified and found[2].verified
        assert found[1].status is Status.WRONG_RESULT
        assert before and workers(ready) == before

    def test_a_workload_that_cannot_be_the_reference_leaves_the_measurer_usable(
        self, ready: PooledMeasurer
    ) -> None:
        ready.bind(never_a_number())
        with pytest.raises(WorkloadError, match="gives NaN on random inputs"):
            measured(ready, ready.workload.mod)
        ready.bind(WORKLOAD)
        assert measured(ready, GOOD)[0].verified

    def test_a_crash_on_random_inputs_is_explained(self, ready: PooledMeasurer) -> None:
        workload = indexed(programs.DIVISION)
        said = self.bad_inputs + (
            r"a divisor depends on 'p' \(argument 0\); give inputs= that are valid for it$"
        )
        ready.bind(workload)
        with pytest.raises((TargetError, WorkloadError), match=said):
            measured(ready, workload.mod)
        ready.bind(workload, Problem(verify=False))
        with pytest.raises((TargetError, WorkloadError), match=said):
            _ = ready.reference_latency

    def test_a_users_inputs_and_results_replace_the_programs(self, ready: PooledMeasurer) -> None:
        def inputs(rng: np.random.Generator) -> list[np.ndarray]:
            return [rng.random((64, 64), "float32") for _ in range(2)]

        ready.bind(WORKLOAD, Problem(verify="all", inputs=inputs, reference=np.matmul))
        found = measured(ready, GOOD, WRONG)
        assert [found[0].status, found[1].status] == [Status.OK, Status.WRONG_RESULT]
        assert ready._preparation.binding.reference is not None

    @pytest.mark.parametrize("large", [False, True])
    def test_a_users_results_that_the_program_does_not_give_end_it(
        self, ready: PooledMeasurer, monkeypatch: pytest.MonkeyPatch, large: bool
    ) -> None:
        if large:  # a part of the program is compared
            monkeypatch.setattr(ready, "_large", LargePolicy(steps=2e4, window_steps=2e4))
            monkeypatch.setattr(ready, "_preparations", LastUsed(8))
        wrong = Problem(verify="all", reference=lambda a, b: a @ b.T)
        ready.bind(WORKLOAD, wrong)
        for _ in range(2):
            with pytest.raises(WorkloadError, match=r"reference= returns .* of 4096 elements dif"):
                measured(ready, GOOD)
        with pytest.raises(WorkloadError, match=r"at \[\d+, \d+\] got .*, expected .* error"):
            _ = ready.reference_latency
        ready.bind(WORKLOAD, Problem(verify="all", reference=np.matmul))
        assert measured(ready, GOOD)[0].verified

    def test_a_large_workload_is_verified_with_results_that_were_computed_once(
        self, ready: PooledMeasurer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ready, "_large", LargePolicy(steps=2e4, window_steps=2e4))
        monkeypatch.setattr(ready, "_preparations", LastUsed(8))
        learned, learn = [], ready._executor.learn

        def note(until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
            learned.append(len(programs))
            return learn(until, programs, seconds)

        monkeypatch.setattr(ready._executor, "learn", note)
        for workload in (OTHER, WORKLOAD):
            ready.bind(workload)
        ready.deadline = time.monotonic()
        assert list(ready.measure([Candidate(0, WORKLOAD.mod)])) == []
        assert math.isnan(ready.reference_latency)
        ready.deadline = math.inf
        found = measured(ready, *(scheduled_matmul(WORKLOAD, tile) for tile in (1, 2, 4)), WRONG)
        assert [found[number].verified for number in range(4)] == [True, True, True, False]
        assert found[3].status is Status.WRONG_RESULT
        # By a schedule and a part of the unscheduled program, which no worker ran as a whole, and a
        # new one will not either.
        assert set(learned) == {2}
        pool, count = ready._pool, len(learned)
        assert pool.greeting.get("reference_seconds") is None
        assert ready._preparation.binding.reference is not None
        assert pool.start is not None and pool.start.header["reference"] is not None
        assert ready.reference_latency > 0 and ready.reference_complete
        ready.bind(OTHER)
        assert measured(ready, OTHER.mod)[0].verified and len(learned) == count

    def test_one_worker_runs_a_long_unscheduled_program_for_all(
        self, ready: PooledMeasurer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ready, "_large", LargePolicy(shared_steps=2e4))
        monkeypatch.setattr(ready, "_preparations", LastUsed(8))
        for workload in (OTHER, WORKLOAD):
            ready.bind(workload)
        ready.deadline = time.monotonic()
        assert list(ready.measure([Candidate(0, WORKLOAD.mod)])) == []
        ready.deadline = math.inf
        found = measured(ready, GOOD, WRONG)
        assert [found[number].verified for number in range(2)] == [True, False]
        assert found[1].status is Status.WRONG_RESULT
        reference = ready._preparation.binding.reference
        assert reference is not None and len(reference.results) > 1
        assert any(one.exact for one in reference.results), "sums of whole numbers"
        assert ready._pool.greeting.get("reference_seconds") is None
        assert 0 < ready.reference_latency < 1 and ready.reference_complete
        ready.bind(OTHER)
        assert measured(ready, OTHER.mod)[0].verified

    def test_tune_works_with_it_to_the_end(self, ready: PooledMeasurer) -> None:
        runs = self.runs(ready)
        result = tune(
            WORKLOAD, ready.target, trials=4, search="random", measurer=ready, progress=False
        )
        assert len(result.records) == 4
        assert result.best.record.verified and result.best.finals is not None
        assert result.reference_latency == ready.reference_latency > 0
        assert self.runs(ready) - runs >= 4

    def test_a_huge_program_is_given_up_when_others_are_built(self, ready: PooledMeasurer) -> None:
        """It is the first, and still waited for when the others are known."""
        if math.isinf(ready._build_timeout._factor):
            pytest.skip("it waits for slow builds")
        tiles = [scheduled_matmul(WORKLOAD, tile) for tile in (1, 2, 4, 8)] * 3
        found = measured(ready, from_body(programs.ENDLESS_UNROLL), *tiles)
        assert found[0].status is Status.BUILD_TIMEOUT
        # The limit is 5 s, or a multiple of the median build on a slow or busy machine, where the
        # wall time may be over first.
        slow = r"not done within \S+ s( of .* where half of them take \S+ s)?"
        if re.fullmatch(slow, found[0].message):
            assert found[0].build_seconds >= 5
        else:
            assert found[0].message.startswith("not built: its code has the size ")
        assert all(found[number].ok for number in range(1, 1 + len(tiles)))

    def test_it_closes_twice(self, ready: PooledMeasurer, group: Callable[[int], set[int]]) -> None:
        """The last test: no process and no file is left."""
        assert measured(ready, GOOD)[0].ok
        mine, scratch = workers(ready), ready._executor.scratch
        assert mine and all(group(pid) for pid in mine)
        assert scratch is None or scratch.path.exists()
        super().test_it_closes_twice(ready)
        assert not any(group(pid) for pid in mine)
        assert scratch is None or not scratch.path.exists()
        with pytest.raises(TargetError, match="closed"):
            measured(ready, GOOD)
