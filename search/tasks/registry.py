"""The task schedulers and the objectives by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from schedlang.printed import not_among
from schedlang.search.tasks.objective import (
    Objective,
    Requirements,
    Speedup,
    TotalLatency,
    UserObjective,
)
from schedlang.search.tasks.schedulers import (
    EqualSplit,
    GradientScheduler,
    RoundRobin,
    SchedulerBase,
    TaskScheduler,
    UserScheduler,
)

SCHEDULERS: Mapping[str, type[SchedulerBase]] = {
    make.name: make for make in (GradientScheduler, RoundRobin, EqualSplit)
}
OBJECTIVES = (TotalLatency.name, Requirements.name, Speedup.name)

UserFunction = Callable[[tuple[float, ...]], float]


def make_objective(
    objective: str | Objective | UserFunction = "latency",
    *,
    limits: Sequence[float] | float | None = None,
    networks: int = 1,
    weights: Sequence[float] | None = None,
) -> Objective:
    """Make the objective called ``objective``, or of the function that it is.

    Parameters
    ----------
    objective: ``"latency"``, ``"requirements"``, ``"speedup"``, or a function from a tuple with the
        latency of each network, in seconds, to a cost.
    limits: for ``"requirements"``: seconds for each network; one number for one network.
    networks: number of networks.
    weights: for ``"latency"``: how often each network runs.

    ValueError for another name, for limits that are missing, too many or not asked for, and for
    what is no objective. ``ObjectiveError`` for a function that does not work.
    """
    if limits is not None and objective != Requirements.name:
        raise ValueError(f"limits={limits!r} need objective='requirements', not {objective!r}")
    if isinstance(objective, Objective):
        return objective
    if objective == Requirements.name:
        if limits is None:
            raise ValueError("objective='requirements' needs limits=: seconds for each network")
        given = Requirements([limits] if isinstance(limits, int | float) else limits)
        if len(given.limits) != networks:
            raise ValueError(f"limits={limits!r}: {len(given.limits)} for {networks} networks")
        return given
    if objective == TotalLatency.name:
        return TotalLatency(weights)
    if objective == Speedup.name:
        return Speedup()
    if callable(objective):
        own = UserObjective(objective)
        own.of((1.0,) * networks)  # a mistake shows now, not after the first slices
        return own
    said = not_among(f"objective={objective!r}", objective, OBJECTIVES)
    raise ValueError(f"{said}, or give f(latencies) -> float")


def make_scheduler(
    scheduler: str | TaskScheduler = "gradient",
    *,
    objective: str | Objective | UserFunction = "latency",
    limits: Sequence[float] | float | None = None,
    patience: int | None = None,
    networks: int = 1,
    weights: Sequence[float] | None = None,
    seed: int = 0,
) -> SchedulerBase | UserScheduler:
    """Make the scheduler called ``scheduler``, or check the choices of the object that it is.

    Parameters
    ----------
    scheduler: ``"gradient"``, ``"round_robin"``, ``"equal_split"``, or an object with
        ``next(progress)``, which has an objective of its own.
    objective, limits, networks, weights: see ``make_objective``.
    patience: number of trials that a task may take without a gain; ``None`` disables it.
    seed: of random choices.

    ValueError for another name, and for an objective, limits or patience beside an object.
    """
    if isinstance(scheduler, str):
        make = SCHEDULERS.get(scheduler)
        if make is None:
            said = not_among(f"scheduler={scheduler!r}", scheduler, SCHEDULERS)
            raise ValueError(f"{said}, or an object with next")
        cost = make_objective(objective, limits=limits, networks=networks, weights=weights)
        return make(cost, patience=patience, seed=seed)
    if isinstance(scheduler, type) or not callable(getattr(scheduler, "next", None)):
        raise ValueError(
            f"scheduler={scheduler!r} has no next(progress); give a name ({', '.join(SCHEDULERS)}) "
            "or an object that has it"
        )
    given = {
        "limits": limits,
        "patience": patience,
        "objective": None if objective == TotalLatency.name else objective,
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name}={value!r} beside a scheduler object, which has its own; leave it out"
            )
    return scheduler if isinstance(scheduler, SchedulerBase) else UserScheduler(scheduler)
