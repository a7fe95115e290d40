"""The searches by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedlang.search.evolutionary import Evolutionary
from schedlang.search.random import Random
from schedlang.search.strategy import Strategy
from schedlang.space import Space
from schedlang.workload import Workload

MakeStrategy = Callable[[Space, Workload, int], Strategy]

AUTO = "evolutionary"

SEARCHES: Mapping[str, MakeStrategy] = {
    "random": Random,
    "evolutionary": Evolutionary,
}


def make_search(name: str, space: Space, workload: Workload, seed: int) -> Strategy:
    """The search called ``name``; ``"auto"`` is what measured best. ValueError for others."""
    make = SEARCHES.get(AUTO if name == "auto" else name)
    if make is None:
        known = ", ".join(["auto", *SEARCHES])
        raise ValueError(f"search={name!r}; known: {known}, or give a Strategy")
    return make(space, workload, seed)
