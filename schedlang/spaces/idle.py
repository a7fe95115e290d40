"""Modules of a user that find nothing left to do, because others come before them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from schedlang.instructions.choices import Draw
from schedlang.interpreters.definitions import is_ours
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.spaces.visit import Visit
from schedlang.workloads.workload import Workload

# Runs of a space, with other choices, in which a module does nothing before it is called idle.
_RUNS = 8


class IdleModuleWarning(UserWarning):
    """A module of yours does nothing: those before it in the space leave it nothing to do."""


def warn_of_idle(space: Space, workloads: Sequence[Workload], stacklevel: int = 3) -> None:
    """Warn of modules that apply to the unscheduled programs, but nowhere at their place.

    Modules of the library are not looked at: several of them do the same work in different ways.
    A module that does something for one of the workloads is not idle.
    """
    for position, module in enumerate(space):
        if not position or not _is_users(module):
            continue
        before = space.modules[:position]
        # A draw may decide what it does.
        applies = [one for one in workloads if not _idle((), module, one)]
        if applies and all(_idle(before, module, one) for one in applies):
            message = _message(before, module, applies[0])
            warnings.warn(message, IdleModuleWarning, stacklevel)


def _is_users(value: Any) -> bool:
    """Whether a module is made of a function that is not of the library."""
    if isinstance(value, Module):
        function = value.function
        if not is_ours(getattr(function, "__module__", None)):
            return True
        # Such as ``Stochastic``: it closes over the modules that it draws from.
        return any(
            _is_users(cell.cell_contents) for cell in getattr(function, "__closure__", ()) or ()
        )
    return isinstance(value, list | tuple | Space) and any(map(_is_users, value))


def _idle(before: Sequence[Module], module: Module, workload: Workload) -> bool:
    """Whether a module does nothing behind others, whatever they choose."""
    for seed in range(_RUNS):
        sch = _schedule(workload, seed)
        if not _apply(before, sch) or _works(module, sch):
            return False
    return True


def _schedule(workload: Workload, seed: int) -> Schedule:
    return Schedule(workload, decider=Draw(random.Random(seed)))


def _apply(modules: Iterable[Module], sch: Schedule) -> bool:
    """Apply modules; return whether none of them raised."""
    try:
        for module in modules:
            module.visit(sch)
    except Exception:  # whoever searches the space learns of it
        return False
    return True


def _works(module: Module, sch: Schedule) -> bool:
    """Whether a module does something to a schedule, or fails there; nothing is changed."""
    return any(visit.instructions or visit.error for visit in _visits(module, sch))


def _visits(module: Module, sch: Schedule) -> list[Visit]:
    mark = sch.mark()
    try:
        return module.visit(sch)
    except Exception as error:
        return [Visit(module.name, "", error=str(error) or type(error).__name__)]
    finally:
        sch.rollback(mark)


def _message(before: Sequence[Module], module: Module, workload: Workload) -> str:
    culprit = next(
        other for count, other in enumerate(before, 1) if _idle(before[:count], module, workload)
    )
    sch = _schedule(workload, 0)
    _apply(before, sch)
    reasons = [visit.reason for visit in _visits(module, sch) if visit.reason]
    said = f" ({reasons[-1]})" if reasons else ""
    return (
        f"module {module.name!r} does nothing in this space: it applies to {workload.name}, but no "
        f"more behind {culprit.name!r}, which comes before it{said}. Put it in front: "
        f"space + {module.name}.placed(before={culprit.name!r}), or state its place with "
        f"@sl.module(before={culprit.name!r})"
    )
