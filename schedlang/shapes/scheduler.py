"""Which shape of a set gets the next trials, and programs that shapes take from each other.

``ShapesScheduler`` shares trials out. ``Exchange`` tries what became fast for one shape on shapes
near it that take longer than they should; ``Expectation`` says what they should take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from scipy.optimize import nnls

from schedlang.database import Database
from schedlang.database.programs import Unreadable, replayed
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer
from schedlang.search.tasks import TaskProgress
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.kernels.race import measured
from schedlang.tuning.kernels.rungs import Rungs
from schedlang.tuning.records import blank_record
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.workload import Workload

# -- Which shape gets the next trials -------------------------------------------------------------


class Expectation:
    """What tasks should take, by what all of them take.

    That is a time for a call, one for each operation and one for each byte, none of them negative,
    fitted so that relative errors are small.

    Parameters
    ----------
    work: operations, or elements, and bytes of the arguments of one call of each task.
    """

    def __init__(self, work: Sequence[tuple[float, float]]) -> None:
        costs = np.array([(1.0, *one) for one in work])
        self._costs = costs / costs.mean(axis=0)

    def of(self, latencies: np.ndarray) -> np.ndarray:
        """Return the latency that each task should have; those that are infinite tell nothing."""
        known = np.isfinite(latencies) & (latencies > 0)
        if not known.any():
            return np.ones(len(latencies))
        scaled = self._costs[known] / latencies[known, None]
        size = scaled.max()
        try:
            factors, _ = nnls(scaled / size, np.ones(len(scaled)), maxiter=100)
        except RuntimeError:  # it has not converged
            return np.ones(len(latencies))
        found: np.ndarray = self._costs @ factors / size
        return found


class ShapesScheduler:
    """A task scheduler: some tasks in earnest, then a slice for each other, then those behind.

    A task is behind where it takes longer than expected. What a task has had already counts against
    it.

    Parameters
    ----------
    first: places of the tasks that are tuned in earnest, in order.
    trials: of each of them.
    far: distance between each two tasks.
    expectation: of the tasks.
    """

    def __init__(
        self, first: Sequence[int], trials: int, far: np.ndarray, expectation: Expectation
    ) -> None:
        self._first, self._trials = list(first), trials
        self._expectation = expectation
        nearest = far[:, self._first].min(axis=1) if self._first else np.zeros(len(far))
        self._others = [int(k) for k in np.argsort(nearest, kind="stable") if k not in first]

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return the place of the task that gets the next slice; None if none wants one."""
        for place in self._first:
            if progress[place].open and progress[place].trials < self._trials:
                return place
        for place in self._others:
            if progress[place].open and not progress[place].latencies:
                return place
        able = [k for k in self._others if progress[k].open and progress[k].trials < self._trials]
        if not able:
            return None
        latencies = np.array([one.latency for one in progress])
        expected = self._expectation.of(latencies)

        def standing(place: int) -> float:
            if not math.isfinite(latencies[place]):
                return 0.0
            had = math.sqrt(len(progress[place].latencies))
            return float(expected[place] / latencies[place]) * had

        return min(able, key=standing)


# -- What became fast for one shape, tried on shapes near it --------------------------------------

# What its records name as their search.
_SEARCH = "exchange"
# A shape that takes this much longer than expected is tried with what is fast for others, with so
# many schedules at a time.
_BEHIND = 1.07
_AT_ONCE = 4


@dataclass(frozen=True)
class BestKnown:
    """The best program of a shape that is known.

    Attributes
    ----------
    trace: makes it; empty for the unscheduled program.
    latency: in seconds.
    trials: candidates that were measured for the shape.
    """

    trace: Trace
    latency: float
    trials: int


class Exchange:
    """Carries fast programs to shapes that are behind; measures, verifies and stores them.

    The first slices of shapes saw what was known at their time only.

    Parameters
    ----------
    workloads: of the shapes.
    target: the machine.
    database: has the records of all shapes, and gets more.
    bind: returns a measurer of a workload, which verifies every result.
    room: number of measurements, at most, those of earlier calls included.
    out_of_time: says whether to end.
    """

    def __init__(
        self,
        workloads: Sequence[Workload],
        target: Target,
        database: Database,
        bind: Callable[[Workload], Measurer],
        room: int,
        out_of_time: Callable[[], bool],
    ) -> None:
        self._workloads, self._target, self._database = workloads, target, database
        self._bind = bind
        self._room = room
        self._out_of_time = out_of_time

    def run(self, found: dict[int, BestKnown], expectation: Expectation) -> None:
        """Put better programs in place of those known, until nothing helps or the room is used.

        ``found`` has those of each shape by its place; those of earlier calls come first.
        """
        for place, one in found.items():
            found[place] = self._earlier(place, one)
        while True:
            latencies = np.full(len(self._workloads), np.inf)
            for place, one in found.items():
                latencies[place] = one.latency
            behind = latencies / expectation.of(latencies)
            order = sorted(found, key=lambda place: -behind[place])
            gained = False
            for place in (place for place in order if behind[place] > _BEHIND):
                if self._out_of_time():
                    return
                better = self._tried(place, found[place])
                gained |= better.latency < found[place].latency
                found[place] = better
            if not gained:
                return

    def _earlier(self, place: int, known: BestKnown) -> BestKnown:
        """Return the best program of a shape with what earlier calls exchanged."""
        workload = self._workloads[place]
        records = self._database.query(workload.key, self._target.key, toolchain_key())
        own = [one for one in records if one.search == _SEARCH]
        self._room -= len(own)
        best = replace(known, trials=known.trials + len(own))
        usable = [one for one in own if one.ok and one.verified and one.latency < best.latency]
        for record in sorted(usable, key=lambda one: one.latency):
            schedule = replayed(record, workload)
            if schedule is not None:
                return replace(best, trace=schedule.trace, latency=record.latency)
        return best

    def _tried(self, place: int, known: BestKnown) -> BestKnown:
        """Return the best program of a shape after trying those of its neighbours."""
        workload = self._workloads[place]
        if only_moves_data(workload.func):
            return known
        room = min(_AT_ONCE, max(self._room, 0))
        kin = Rungs(self._database, self._target, Unreadable()).kin(workload)
        leads = list(islice(kin, room))
        self._room -= len(leads)
        best = replace(known, trials=known.trials + len(leads))
        blank = blank_record(workload, self._target, _SEARCH, None)
        for tried in measured(leads, blank, self._bind(workload)) if leads else ():
            record = tried.record
            self._database.append([record])
            if record.ok and record.verified and record.latency < best.latency:
                best = replace(best, trace=tried.lead.proposal.trace, latency=record.latency)
        return best
