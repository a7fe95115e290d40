"""What the arguments of a call stand for: a space, a search, and the task of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from schedlang.errors import SchedlangError, SpaceError, WorkloadError
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.protocol import check_method, check_values
from schedlang.printed import first_line
from schedlang.search import MakeStrategy, Proposal, Strategy, make_search
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets import Target
from schedlang.tuning.identity import identity
from schedlang.tuning.kernels.defaults import default_schedule
from schedlang.workloads.workload import Workload

# -- Spaces and searches --------------------------------------------------------------------------


def as_space(space: Space | Module) -> Space:
    """Convert ``space`` to a ``Space``; SpaceError if that is impossible."""
    if isinstance(space, Module):
        return Space([space])
    if isinstance(space, Space):
        return space
    raise SpaceError(
        f"space is a Space or a module, not {type(space).__name__}; for several modules give "
        "Space([...])"
    )


def space_of(search: object) -> Space | None:
    """Return the space that a strategy was made for; None for another search, and where unknown."""
    space = getattr(search, "space", None) if isinstance(search, Strategy) else None
    return space if isinstance(space, Space) else None


def as_strategy(
    search: str | MakeStrategy | Strategy,
    space: Space,
    workload: Workload,
    seed: int,
    trials: int | None,
) -> Strategy:
    """Convert ``search`` to a ``Strategy``; ValueError if that is impossible."""
    if isinstance(search, Strategy):
        return search
    if callable(search):
        made = search(space, workload, seed)
        if isinstance(made, Strategy):
            return made
        raise ValueError(f"search={search!r} made a {type(made).__name__}, not a Strategy")
    if not isinstance(search, str):
        raise ValueError(
            f"search={search!r} is not the name of a search; give one, or give a Strategy: an "
            "object whose class derives from schedlang.search.Strategy"
        )
    return make_search(search, space, workload, seed, trials)


def checked_proposals(strategy: Strategy, wanted: int) -> list[Proposal]:
    """Ask a search for at most ``wanted`` proposals.

    TypeError where it returns anything but a list of proposals; ValueError where these are too
    many, or two have one id.
    """
    found = strategy.ask(wanted)
    what = f"search: {type(strategy).__name__}.ask({wanted})"
    remedy = "return a list of schedlang.search.Proposal, empty where there is none to propose"
    if not isinstance(found, list | tuple):
        raise TypeError(f"{what} returned {type(found).__name__}; {remedy}")
    for one in found:
        if not isinstance(one, Proposal):
            raise TypeError(f"{what} returned a list with {type(one).__name__} in it; {remedy}")
    if len(found) > wanted:
        raise ValueError(f"{what} returned {len(found)} proposals; return at most {wanted}")
    ids = [one.id for one in found]
    if len(set(ids)) < len(ids):
        raise ValueError(
            f"{what} returned proposals with the ids {ids}; each takes an id of its own"
        )
    return list(found)


def check_strategy(strategy: Strategy, space: Space, workload: Workload) -> None:
    """Check that a strategy was made for this space and workload and that no run has used it.

    ValueError otherwise; TypeError for a member that cannot be used. Nothing is asked. A strategy
    of a user's that keeps no ``space`` and ``workload`` can be for any.
    """
    what = f"search: {type(strategy).__name__}"
    name = getattr(strategy, "name", None)
    if not isinstance(name, str):
        raise TypeError(f'{what}.name is {name!r}; give the class a name, such as name = "mine"')
    check_method(what, strategy, "ask", "n")
    check_method(what, strategy, "tell", "outcomes")
    check_method(what, strategy, "suggest", "traces")
    check_values(what, strategy, "finished", "rejections", "settings", "report", "screened")
    made_for: Any = getattr(strategy, "workload", None)
    if isinstance(made_for, Workload) and made_for != workload:
        raise ValueError(
            f"search: this {name!r} was made for the workload {_described(made_for)}, and the call "
            f"tunes {_described(workload)}; make one for it, or give the class"
        )
    made_for = getattr(strategy, "space", None)
    if (
        isinstance(made_for, Space)
        and made_for is not space
        and identity(made_for) != identity(space)
    ):
        raise ValueError(
            f"search: this {name!r} was made for a space of {_names(made_for)}, and the call has "
            f"one of {_names(space)}, which is another; make one for it, or leave out space="
        )
    if strategy.used_by_tune:
        raise ValueError(
            f"search: a run has used this {name!r} already, and its results are not of this run; "
            "make a new one, or give the class"
        )


def _described(workload: Workload) -> str:
    """Return what makes a workload again, or its name and the shapes of its arguments."""
    shapes = ", ".join(f"{one.name}: {one.dtype}{list(one.shape)}" for one in workload.args)
    return workload.source or f"{workload.name}({shapes})"


def _names(space: Space) -> str:
    return ", ".join(module.name for module in space.modules)


def search_identity(search: str | MakeStrategy | Strategy, strategy: Strategy) -> object:
    """Return an identity of a search; ``strategy`` is the one made from ``search``."""
    given: object = search
    if isinstance(search, Strategy):
        try:
            given = search.save()
        except SchedlangError:
            given = vars(search)
    return [given, type(strategy), strategy.name, dict(strategy.settings)]


# -- The tasks of sessions ------------------------------------------------------------------------

# Tasks of a network get some tens of trials each, for which descending at once measured best.
_AUTO = "coordinate_descent"


@dataclass(frozen=True)
class TunedTask:
    """What a session tunes.

    Attributes
    ----------
    workload, space: what to search.
    search: as it was given, for the identity of the run.
    make_strategy: makes the search.
    first: returns traces that the search starts from.
    default: returns what the program runs with when it is not tuned, which then takes part in the
        finals; None leaves it to the search.
    identifying: values of options that identify the run, besides those of the session.
    seed: of the search, where it is not the session's.
    """

    workload: Workload
    space: Space
    search: str | MakeStrategy | Strategy
    make_strategy: Callable[[], Strategy]
    first: Callable[[], Sequence[Trace]] = tuple
    default: Callable[[], Schedule] | None = None
    identifying: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None


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
