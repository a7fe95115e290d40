"""Random search: independent draws from the prior."""

from __future__ import annotations

import random
from collections.abc import Sequence

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.schedule import Schedule
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.space import Space
from schedlang.tvm.program import structural_key
from schedlang.workload import Workload

# Draws in a row that give nothing new after which the space counts as exhausted.
PATIENCE = 200


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
        self._space = space
        self._workload = workload
        self._rng = random.Random(seed)
        self._patience = patience
        self._seen: set[str] = set()
        self._rejections: list[Rejection] = []
        self._next_id = 0
        self._pending: set[int] = set()
        self._barren = 0

    def ask(self, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < n and self.finished is None:
            schedule = self._draw()
            if schedule is None:
                self._barren += 1
                continue
            self._barren = 0
            proposals.append(Proposal(self._next_id, schedule))
            self._pending.add(self._next_id)
            self._next_id += 1
        return proposals

    def _draw(self) -> Schedule | None:
        try:
            schedule = self._space.sample(self._workload, seed=self._rng.getrandbits(63))
        except InvalidTrace as error:
            self._rejections.append(Rejection(error.reason, error.site, _line(error)))
            return None
        except InstructionError as error:
            where = "/".join(filter(None, (error.module, error.instruction)))
            self._rejections.append(Rejection("instruction", where, _line(error)))
            return None
        key = structural_key(schedule.mod)
        if key in self._seen:
            message = "the same program as an earlier one"
            self._rejections.append(Rejection("duplicate", "", message))
            return None
        self._seen.add(key)
        return schedule

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to learn, draws are independent; but an outcome of no proposal is a mistake."""
        pending = set(self._pending)
        for outcome in outcomes:
            if outcome.id not in pending:
                raise ValueError(
                    f"no proposal {outcome.id} is pending: it was told before, or never made"
                )
            pending.remove(outcome.id)
        self._pending = pending

    @property
    def finished(self) -> str | None:
        if self._barren < self._patience:
            return None
        if not self._seen:
            last = self._rejections[-1].message if self._rejections else "nothing was drawn"
            return f"no valid program in {self._barren} draws; the last one: {last}"
        return f"no new program in {self._barren} draws; {len(self._seen)} found before them"

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._rejections


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]
