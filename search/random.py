"""Random search: independent draws from the prior."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from schedlang.search.base import ProposingStrategy


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
