"""The programs to tune for the shapes that were asked for, and what the budget is for."""

from __future__ import annotations

import math
from typing import Any

from schedlang.errors import WorkloadError
from schedlang.networks.network_tasks import SharedTask, distances, isolated, representatives
from schedlang.networks.tasks import Task
from schedlang.shapes.extents import Extents, Range, Shapes
from schedlang.shapes.range_kernels import unified
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.tvm.symbolic import SymbolicProgram
from schedlang.workloads.construct import Template, assigned

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
