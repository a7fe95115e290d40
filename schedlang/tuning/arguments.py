"""Convert and check the arguments of ``tune``, and identify its call."""

from __future__ import annotations

from typing import Any

from schedlang.errors import SchedlangError, SpaceError
from schedlang.measurement.protocol import check_method, check_values
from schedlang.search import MakeStrategy, Proposal, Strategy, make_search
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.tuning.identity import identity
from schedlang.workloads.workload import Workload


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
