"""The programs to tune for the shapes that were asked for, and which of them gets which trials.

``Programs`` has the programs, and ``plan`` says what the budget is for. ``ShapesScheduler`` shares
trials out. ``Exchange`` tries what became fast for one shape on shapes near it that take longer
than they should; ``Expectation`` says what they should take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from scipy.optimize import nnls

from schedlang.database import Database
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import WorkloadError
from schedlang.measurement import Measurer
from schedlang.networks.network_tasks import SharedTask, distances, isolated, representatives
from schedlang.networks.tasks import Task
from schedlang.search.tasks import TaskProgress
from schedlang.shapes.extents import Extents, Range, Shapes
from schedlang.shapes.ranges import BestKnown, unified
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.kernels.race import measured
from schedlang.tuning.kernels.rungs import Rungs
from schedlang.tuning.records import blank_record
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.tvm.symbolic_program import SymbolicProgram
from schedlang.workloads.construct import Template, assigned
from schedlang.workloads.workload import Workload

# -- The programs to tune -------------------------------------------------------------------------

# Ranges with fewer shapes are single shapes: their programs are too few to make one of.
_SMALL = 8
# Of the samples of a range, the part that is tuned in earnest; and the fewest.
_TUNED_PART, _TUNED = 1 / 3, 3


def without_small(asked: Shapes) -> Shapes:
    """Return the shapes with small ranges as single ones."""
    points = {tuple(p.values()): w for p, w in zip(asked.points, asked.weights, strict=True)}
    ranges = []
    for one in asked.ranges:
        if one.size > _SMALL:
            ranges.append(one)
            continue
        for extents in one.all():
            key = tuple(extents.values())
            points[key] = points.get(key, 0.0) + one.weight / one.size
    listed = tuple(dict(zip(asked.names, key, strict=True)) for key in points)
    return Shapes(asked.names, listed, tuple(points.values()), tuple(ranges))


class Programs:
    """The programs of the shapes that were asked for, and of samples of ranges.

    Attributes
    ----------
    template, asked: as given.
    failed: shapes and ranges for which the template fails, and why.
    points: single shapes and their weights, each with the place in ``shapes`` of its program.
    small: places of those of ranges that have kernels of their own.
    unified: of each range, the program with symbolic extents, and places of samples in ``shapes``.
    shapes: what is tuned, each program once.
    weights: how much each of these counts.
    """

    def __init__(self, template: Template, asked: Shapes) -> None:
        self.template, self.asked = template, asked
        self.failed: dict[str, str] = {}
        self.shapes: list[Extents] = []
        self.weights: list[float] = []
        self.points: list[tuple[Extents, float, int]] = []
        self._places: dict[str, int] = {}
        self.small: set[int] = set()
        self.unified: list[tuple[Range, SymbolicProgram, list[int]]] = []
        for extents, weight in zip(asked.points, asked.weights, strict=True):
            try:
                template(extents)
            except WorkloadError as error:
                self.failed[assigned(extents)] = str(error)
            else:
                self.points.append((extents, weight, self._add(extents, weight)))
        for one in asked.ranges:
            try:
                found = unified(template, one)
            except WorkloadError as error:
                self.failed[str(one)] = str(error)
                continue
            samples = one.large().samples()
            count = max(_TUNED, round(len(samples) * _TUNED_PART))
            sizes = [[*sample.values()] for sample in samples]
            chosen = representatives(sizes, [1.0] * len(samples), count)
            places = [self._add(samples[k], one.weight / count) for k in chosen]
            self.small |= {self._add(extents, one.weight / one.size) for extents in one.small()}
            self.unified.append((one, found, places))
        if not self.shapes:
            reasons = "; ".join(self.failed.values())
            raise WorkloadError(f"the template works for none of the shapes: {reasons}")

    def _add(self, extents: Extents, weight: float) -> int:
        place = self._places.setdefault(self.template(extents).key, len(self.shapes))
        if place < len(self.shapes):
            self.weights[place] += weight
        else:
            self.shapes.append(extents)
            self.weights.append(weight)
        return place

    def tasks(self) -> tuple[list[SharedTask], Any]:
        """Return a task for each of the shapes, and the distances between them."""
        tasks = []
        for extents, weight in zip(self.shapes, self.weights, strict=True):
            workload = self.template(extents)
            moves = only_moves_data(workload.func)
            task = Task(workload, (workload.name,), 1, moves, ())
            tasks.append(SharedTask(task, (weight,)))  # type: ignore[arg-type]
        return tasks, distances([[*one.values()] for one in self.shapes])


# -- What the budget of ``tune_shapes`` is for ----------------------------------------------------

# Part of the measurements that are left for programs that became fast for other shapes.
_EXCHANGED = 0.05
# Part of the trials that go to shapes in earnest.
_EARNEST = 1 / 3
# Measurements of a shape besides its trials: the unscheduled program, and often its best once more.
_BESIDES = 1.5
# Trials of a shape that is not tuned in earnest.
_FEWEST = 4
# The same of a small extent of a range.
_OF_SMALL = 6


def plan(made: Programs, trials: int, share: float) -> tuple[list[int], int, int]:
    """Return what the budget is for.

    These are the places of the shapes to tune in earnest, in order, the trials of all shapes, and
    the measurements of programs that are carried over afterwards. In earnest are representatives,
    and half as many that are like no others.
    """
    of_ranges = [place for *_, places in made.unified for place in places]
    places = dict.fromkeys(place for *_, place in made.points)
    alone = [k for k in places if k not in of_ranges and k not in made.small]
    first: list[int] = []
    # A session gives no fewer at once.
    trials = max(trials, _FEWEST)
    total = len(set(of_ranges)) * trials + _OF_SMALL * len(made.small.difference(of_ranges))
    if alone:
        budget = (share * (trials + _BESIDES) - _BESIDES) * len(alone)
        count = max(1, round(budget * _EARNEST / trials))
        extents = [[*made.shapes[place].values()] for place in alone]
        weights = [made.weights[place] for place in alone]
        apart = isolated(extents)[: count // 2]
        chosen = dict.fromkeys([*representatives(extents, weights, count), *apart])
        first = [alone[k] for k in chosen]
        least = len(first) * trials + _FEWEST * (len(alone) - len(first))
        total += max(math.floor(budget * (1 - _EXCHANGED)), least)
    room = max(round(total * _EXCHANGED), _FEWEST)
    return [*dict.fromkeys([*of_ranges, *first])], total, room


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
