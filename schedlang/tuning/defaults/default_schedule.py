"""``default_schedule()``: a good schedule of a program, without measuring anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from schedlang.distributions import ComputeLocation
from schedlang.language.schedule import Schedule, Trace
from schedlang.search.coordinate_descent.step_model import Step, origin, steps_from, take
from schedlang.spaces.space import Space
from schedlang.targets import Target, as_target
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

# Number of neighbours of the mode, and of draws from the prior, that are ranked with it.
_NEIGHBOURS = 24
_DRAWS = 8
# Another program replaces the mode if its estimate is below this fraction of the mode's: the prior
# knows what the estimate does not.
_CLEARLY_FASTER = 0.9


def default_schedule(
    workload: Workload | Any, target: Target | str = "cpu", *, space: Space | None = None
) -> Schedule:
    """Return a schedule of a workload that is usually fast, without measuring anything.

    It is the mode of the space's prior, every draw and choice at its most probable value, unless
    another program seems clearly faster by the target's estimate (``Target.estimate``): one that
    differs from the mode in one choice or compute location, or one of 8 draws from the prior. For
    programs that only move data it is the mode of the target's movement space
    (``Target.movement_space``).

    The same arguments give the same schedule in every process, in well under a second for ordinary
    programs. Its trace is one of the space, so that a search can start from it
    (``Strategy.suggest``). Where no program of the space can be made, the modules that finish
    programs are tried alone; the last resort is the unscheduled program.

    Parameters
    ----------
    workload: what ``tune`` takes.
    target: a ``Target`` or its name.
    space: the space; by default the target's default space, or its movement space.
    """
    return choose_schedule(as_workload(workload), as_target(target), space)


def choose_schedule(
    workload: Workload,
    target: Target,
    space: Space | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Return what ``default_schedule`` does, of the programs made before ``is_over()`` is true.

    It is asked before each program but the mode.
    """
    if space is None and only_moves_data(workload.func):
        moved = _attempt(lambda: origin(target.movement_space(), workload))
        if moved is not None:
            return moved
    searched = target.default_space() if space is None else space
    mode = _attempt(lambda: origin(searched, workload))
    if mode is not None:
        return _fastest(mode, searched, target, is_over)
    finishing = Space([module for module in searched if module.stage == "finish"], searched.name)
    finished = _attempt(lambda: origin(finishing, workload))
    return Schedule(workload) if finished is None else finished


def _fastest(mode: Schedule, space: Space, target: Target, is_over: Callable[[], bool]) -> Schedule:
    """Return the mode, or another program of the space if its estimate is clearly lower."""
    if is_over():
        return mode
    chosen, least = mode, _CLEARLY_FASTER * target.estimated(mode.mod)
    if math.isinf(least):
        return mode
    for make in _others(mode.trace, space):
        if is_over():
            break
        other = _attempt(make)
        estimate = math.inf if other is None else target.estimated(other.mod)
        if other is not None and estimate < least:
            chosen, least = other, estimate
    return chosen


def _others(mode: Trace, space: Space) -> Iterator[Callable[[], Schedule]]:
    """Yield what makes the neighbours of the mode, and draws."""
    structural = {
        one.site
        for one in mode.instructions
        if one.site in mode.choices or isinstance(one.distribution, ComputeLocation)
    }
    steps: list[Step] = [step for step in steps_from(mode) if step.site in structural]
    for step in steps[:_NEIGHBOURS]:
        yield partial(take, space, mode, (step,))
    for seed in range(_DRAWS):
        yield partial(space.sample, mode.workload, seed)


def _attempt(make: Callable[[], Schedule]) -> Schedule | None:
    """Return what ``make`` returns; None where a module or an instruction fails.

    Whatever a user's program makes a module raise, there is a default schedule for it.
    """
    try:
        return make()
    except Exception:
        return None
