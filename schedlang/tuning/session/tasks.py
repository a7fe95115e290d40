"""What ``tune`` and ``tune_network`` make of a workload: the task of a session."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from schedlang.errors import SpaceError, WorkloadError
from schedlang.language.schedule import Schedule, Trace
from schedlang.printed import first_line
from schedlang.search import MakeStrategy, Strategy
from schedlang.spaces.space import Space
from schedlang.targets import Target
from schedlang.tuning.arguments import as_strategy
from schedlang.tuning.kernels.defaults import default_schedule
from schedlang.tuning.session.task_run import TunedTask
from schedlang.workloads.workload import Workload

# Tasks of a network get some tens of trials each, for which descending at once measured best.
_AUTO = "coordinate_descent"


def task_of_tune(
    workload: Workload,
    space: Space,
    search: str | MakeStrategy | Strategy,
    trials: int | None,
    seed: int,
    compared: Mapping[str, Any],
) -> TunedTask:
    """Return the task of ``tune``; ``compared`` is what the call says of verification."""
    make_strategy = partial(as_strategy, search, space, workload, seed, trials)
    return TunedTask(workload, space, search, make_strategy, identifying=compared, seed=seed)


def task_of_network(
    workload: Workload,
    target: Target,
    space: Space,
    search: str | MakeStrategy,
    seed: int,
    compared: Mapping[str, Any],
    *,
    moves_data: bool,
    own: bool,
) -> TunedTask:
    """Return a task of ``tune_network``: its search starts from the default schedule.

    The search does not depend on the number of trials. ``own`` says that the space is one of the
    user's own, whose default is not what an untuned program runs with.
    """
    used = target.movement_space() if moves_data else space
    made_by = _AUTO if search == "auto" else search

    @cache
    def of_space() -> Schedule:
        return default_schedule(workload, target, space=used)

    def untuned() -> Schedule:
        return default_schedule(workload, target) if own else of_space()

    def first() -> list[Trace]:
        trace = of_space().trace
        return [trace] if len(trace) else []

    return TunedTask(
        workload,
        used,
        search,
        partial(as_strategy, made_by, used, workload, seed, None),
        first,
        untuned,
        {"network": "network", **compared},
        seed,
    )


def why_untunable(error: WorkloadError | SpaceError) -> str:
    """Return why a task of a network cannot be tuned, in one line.

    Nobody wrote the program by hand, so what its writer could do is left out.
    """
    said = error.reason if isinstance(error, WorkloadError) else str(error)
    return first_line(said) or type(error).__name__
