"""Random search: independent draws from the prior."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from schedlang.search.prior import PATIENCE, draw, nothing_new
from schedlang.search.proposals import Ledger
from schedlang.search.state import dump_rng, dump_state, load_rng, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


class Random(Strategy):
    """Runs the space's program with fresh draws; proposes each different program once.

    Parameters
    ----------
    space, workload: what to draw from.
    seed: equal seeds propose the same programs in the same order.
    patience: draws in a row without a new, valid program after which it is finished.
    """

    name = "random"

    def __init__(
        self, space: Space, workload: Workload, seed: int = 0, patience: int = PATIENCE
    ) -> None:
        if patience < 1:
            raise ValueError(f"patience={patience}: give a whole number from 1 on")
        self._space = space
        self._ledger = Ledger(workload)
        self._rng = random.Random(seed)
        self._patience = patience
        self._barren = 0

    def ask(self, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < n and self.finished is None:
            schedule = draw(self._space, self._rng, self._ledger)
            proposal = None if schedule is None else self._ledger.admit(schedule)
            if proposal is None:
                self._barren += 1
                continue
            self._barren = 0
            proposals.append(proposal)
        return proposals

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to learn, draws are independent; but an outcome of no proposal is a mistake."""
        self._ledger.settle(outcomes)

    @property
    def finished(self) -> str | None:
        if self._barren < self._patience:
            return None
        return nothing_new(self._barren, self._ledger)

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._ledger.rejections

    def save(self) -> str:
        state = {
            "rng": dump_rng(self._rng),
            "barren": self._barren,
            "ledger": self._ledger.save(),
        }
        return dump_state(self.name, state)

    def load(self, state: str) -> None:
        def read(stored: Any) -> None:
            self._ledger.load(stored["ledger"])
            load_rng(self._rng, stored["rng"])
            self._barren = int(stored["barren"])

        load_state(self.name, state, read)
