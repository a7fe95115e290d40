"""Convert and check the arguments of ``tune``, and identify its call."""

from __future__ import annotations

from schedlang.errors import SchedlangError, SpaceError
from schedlang.measurement import SupportsMeasure, as_measurer
from schedlang.search import MakeStrategy, Strategy, make_search
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets.measure.expected.problem import Problem
from schedlang.tuning.resume.identity import identity
from schedlang.workloads.workload import Workload


def check_whole(*, least: int, **arguments: int) -> None:
    """ValueError for an argument that is not a whole number, or less than ``least``."""
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}={value!r}; give a whole number, {least} or more")


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
    return make_search(search, space, workload, seed, trials)


def search_identity(search: str | MakeStrategy | Strategy, strategy: Strategy) -> object:
    """Return an identity of a search; ``strategy`` is the one made from ``search``."""
    given: object = search
    if isinstance(search, Strategy):
        try:
            given = search.save()
        except SchedlangError:
            given = vars(search)
    return [given, type(strategy), strategy.name, dict(strategy.settings)]


def problem_of(measurer: SupportsMeasure) -> Problem:
    """Return the inputs, tolerance and reference that a measurer keeps; defaults if it has none."""
    found = getattr(measurer, "problem", None)
    return found if isinstance(found, Problem) else Problem()


def describe_problem(problem: Problem) -> dict[str, str]:
    """Return how results are verified, for records; empty for the default.

    Equal digests under ``"verification"`` mean the same inputs, tolerance and reference.
    """
    said = problem.describe()
    return said and {**said, "verification": identity(*problem.given().items())}


def measurer_identity(measurer: SupportsMeasure | None) -> object:
    """Return an identity of a measurer: class and key, which say whether latencies compare."""
    return None if measurer is None else [type(measurer), as_measurer(measurer).key]
