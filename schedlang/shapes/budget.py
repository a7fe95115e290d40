"""What the budget of ``tune_shapes`` is for."""

from __future__ import annotations

import math

from schedlang.networks.sizes.representatives import isolated, representatives
from schedlang.shapes.programs import Programs

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
