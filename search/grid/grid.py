"""Grid search: every program of a space, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.language.schedule import Schedule
from schedlang.search.grid.enumerator import Odometer
from schedlang.search.prior import attempt
from schedlang.search.proposals import Ledger
from schedlang.search.state import dump_state, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


class Grid(Strategy):
    """Proposes every program once: all options of every choice, all values of every draw.

    The order is that of the program and of the supports, the last site changing fastest. So in a
    large space few trials stay in one corner: ``points`` makes the grid coarser, but to look all
    over a large space with few trials take ``Random``. Nothing is drawn.

    Parameters
    ----------
    space, workload: what to enumerate.
    seed: not used; strategies are made with one.
    points: at most so many values of each draw, evenly spaced in the order of its support (of its
        first 100,000 values); choices keep all their options. None takes every value.
    """

    name = "grid"

    def __init__(
        self, space: Space, workload: Workload, seed: int = 0, *, points: int | None = None
    ) -> None:
        if points is not None and points < 1:
            raise ValueError(f"points={points}; give a number of 1 or more, or None for all")
        self._space = space
        self._ledger = Ledger(workload)
        self._odometer = Odometer(points)
        self._ended = False

    def ask(self, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < n and not self._ended:
            schedule = self._run()
            proposal = None if schedule is None else self._ledger.admit(schedule)
            if proposal is not None:
                proposals.append(proposal)
            self._ended = not self._odometer.turn()
        return proposals

    def _run(self) -> Schedule | None:
        return attempt(lambda: self._space.run(self._ledger.workload, self._odometer), self._ledger)

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to learn; but an outcome of no proposal is a mistake."""
        self._ledger.settle(outcomes)

    @property
    def finished(self) -> str | None:
        if not self._ended:
            return None
        if self._ledger.proposed:
            return f"all {self._ledger.proposed} programs proposed"
        return f"no valid program in all {len(self._ledger.rejections)} there are"

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._ledger.rejections

    def save(self) -> str:
        state = {
            "ledger": self._ledger.save(),
            "wheels": self._odometer.save(),
            "ended": self._ended,
        }
        return dump_state(self.name, state)

    def load(self, state: str) -> None:
        def read(stored: Any) -> None:
            self._odometer.load(stored["wheels"], self._run)
            self._ledger.load(stored["ledger"])
            self._ended = bool(stored["ended"])

        load_state(self.name, state, read)
