"""One descent from the origin in a plane of two decisions, and the Droplet Expectation there."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from typing import Any

from schedlang.search import CoordinateDescent

Point = tuple[int, int]
Costs = Mapping[Point, float]

ONCE: Mapping[str, int] = {"lines": 1, "restarts": 0}
"""Settings of ``CoordinateDescent`` for the paper's search: one line search, from the origin."""


def decisions(trace: Any) -> Point:
    """Return the two decisions of a trace, in program order."""
    first, second = (one.decision for one in trace.instructions if one.site)
    return first, second


def path_of(search: CoordinateDescent) -> list[Point]:
    """Return the points where its line search was, from the origin to where it converged."""
    found = []
    for id in search.state()["line_searches"]["visited"]:
        told = search.proposals.told_of(id)
        assert told is not None
        found.append(decisions(told.trace))
    return found


def neighbours(costs: Costs, point: Point) -> Iterator[Point]:
    """Yield the points next to a point along one axis (Droplet Search, Definition 3.2)."""
    for axis in (0, 1):
        values = sorted({one[axis] for one in costs})
        here = values.index(point[axis])
        for there in values[max(here - 1, 0) : here] + values[here + 1 : here + 2]:
            near = (there, point[1]) if axis == 0 else (point[0], there)
            if near in costs:
                yield near


def least_rise(costs: Costs) -> float:
    """Return the largest rise of a step, on the chain of neighbours on which that is least.

    The chain leads from the origin to the optimum; a rise is the relative change of the cost. The
    Droplet Expectation (Definition 3.6) is a value below 0: each step of some chain descends. A
    value just above 0 may be noise. It is -1 where the origin is the optimum, and infinite where
    programs that failed separate them.
    """
    origin, optimum = min(costs), min(costs, key=lambda point: costs[point])
    rises = {origin: -1.0}
    waiting = [(-1.0, origin)]
    while waiting:
        rise, point = heapq.heappop(waiting)
        if point == optimum:
            return rise
        if rise > rises[point]:
            continue
        for near in neighbours(costs, point):
            there = max(rise, costs[near] / costs[point] - 1)
            if there < rises.get(near, math.inf):
                rises[near] = there
                heapq.heappush(waiting, (there, near))
    return math.inf


def local_minima(costs: Costs) -> int:
    """Return how many points have no neighbour that is as fast, or faster."""
    return sum(
        all(costs[near] > cost for near in neighbours(costs, point))
        for point, cost in costs.items()
    )
