"""The searches by name, and those without a model: ``Random`` and ``Grid``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.language.schedule import Schedule
from schedlang.printed import not_among
from schedlang.search.base import Enumerator, ProposingStrategy, check_setting
from schedlang.search.coordinate_descent import CoordinateDescent
from schedlang.search.evolutionary import Evolutionary
from schedlang.search.explore_exploit import SETTINGS, ExploreExploit
from schedlang.search.strategy import Strategy
from schedlang.search.tree_search import TreeSearch
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

# -- Random search: independent draws from the prior ----------------------------------------------


class Random(ProposingStrategy):
    """Runs the space's program with fresh draws and proposes each program once.

    Draws are independent: outcomes change nothing.

    Parameters
    ----------
    space, workload: what to draw from.
    seed: equal seeds propose the same programs in the same order.
    give_up_after: draws in a row without a new, valid program after which it is finished.
    """

    name = "random"

    def propose(self) -> Schedule | None:
        return self.draw()


# -- Grid search: every program, in order, one run for each sequence of decisions -----------------


class Grid(ProposingStrategy):
    """Proposes every program once: all options of every choice, all values of every draw.

    The order is that of the program and of the supports; the last site changes fastest. In a large
    space, few trials therefore stay in one corner. ``points`` makes the grid coarser; ``Random``
    covers a large space better. Nothing is drawn.

    Parameters
    ----------
    space, workload: what to enumerate.
    seed: not used; every strategy takes one.
    points: maximum number of values of each draw, evenly spaced in the order of its support (of
        its first 100,000 values); choices keep all their options. ``None`` takes every value.
    """

    name = "grid"

    def __init__(
        self, space: Space, workload: Workload, seed: int = 0, *, points: int | None = None
    ) -> None:
        check_setting(points is None or points >= 1, "points", points, "1 or more, or None for all")
        super().__init__(space, workload, seed)
        self._enumerator = Enumerator(points)
        self._ended = False

    def propose(self) -> Schedule | None:
        schedule = self.proposals.attempt(self._run)
        self._ended = not self._enumerator.advance()
        return schedule

    def _run(self) -> Schedule:
        return self.space.run(self.workload, self._enumerator)

    @property
    def finished(self) -> str | None:
        if not self._ended:
            return None
        if self.proposals.count:
            return f"all {self.proposals.count} programs proposed"
        return f"no valid program in all {len(self.rejections)} there are"

    def state(self) -> Mapping[str, Any]:
        return {"sites": self._enumerator.save(), "ended": self._ended}

    def restore(self, stored: Any) -> None:
        def open_sites() -> None:
            with suppress(InvalidTrace, InstructionError):  # refused already, and saved
                self._run()

        self._enumerator.load(stored["sites"], open_sites)
        self._ended = bool(stored["ended"])


# -- The searches by name -------------------------------------------------------------------------

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
