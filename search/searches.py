"""The searches by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedlang.printed import not_among
from schedlang.search.baselines import Grid, Random
from schedlang.search.coordinate_descent import CoordinateDescent
from schedlang.search.evolutionary import Evolutionary
from schedlang.search.explore_exploit import SETTINGS, ExploreExploit
from schedlang.search.strategy import Strategy
from schedlang.search.tree_search import TreeSearch
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

MakeStrategy = Callable[[Space, Workload, int], Strategy]

SEARCHES: Mapping[str, MakeStrategy] = {
    make.name: make
    for make in (Random, Grid, Evolutionary, CoordinateDescent, ExploreExploit, TreeSearch)
}


def make_search(
    name: str, space: Space, workload: Workload, seed: int, trials: int | None = None
) -> Strategy:
    """Make the search called ``name`` for ``trials`` trials; ``None`` if that is not known.

    Names are ``"auto"``, those of ``SEARCHES``, and the ``SETTINGS`` of ``ExploreExploit``;
    ValueError for others.

    ``"auto"`` is what measured best: coordinate descent (``benchmarks/searches.py``).
    ``"explore_exploit"`` explores for the largest of the paper's K = 25, 100 and 300 that leaves
    half of the trials or more to the descent.
    """
    if name == "auto":
        return CoordinateDescent(space, workload, seed)
    if name in SETTINGS:
        return ExploreExploit.setting(name)(space, workload, seed)
    make = SEARCHES.get(name)
    if make is None:
        known = ["auto", *SEARCHES, *SETTINGS]
        raise ValueError(f"{not_among(f'search={name!r}', name, known)}, or give a Strategy")
    if make is ExploreExploit and trials is not None:
        fitting = [k for k in SETTINGS.values() if 2 * k <= trials]
        switch_after = max(fitting, default=max(1, trials // 2))
        return ExploreExploit(space, workload, seed, switch_after=switch_after)
    return make(space, workload, seed)
