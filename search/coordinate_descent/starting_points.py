"""Where line searches start: given traces, the prior's origin, draws, near the fastest."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.coordinate_descent.neighbourhood import origin
from schedlang.search.coordinate_descent.perturbation import Kicks
from schedlang.search.coordinate_descent.step_model import Expectations
from schedlang.search.prior import attempt, draw
from schedlang.search.proposals import Ledger
from schedlang.search.state import dump_rng, load_rng
from schedlang.spaces.space import Space

# Part of the starts near the fastest that are draws from the prior after all.
_DRAWN = 0.1


class StartingPoints:
    """Gives ``given`` first, or the origin where that is None, then draws from the prior.

    From the ``draws``-th of these on, starts are near the fastest programs (``Kicks``), and nine of
    ten stay so; where nothing is known, or nothing new is near, they are draws.
    """

    def __init__(
        self,
        space: Space,
        ledger: Ledger,
        expect: Expectations,
        seed: int,
        given: Sequence[Trace] | None,
        draws: int,
    ) -> None:
        self._space = space
        self._ledger = ledger
        self._rng = random.Random(seed)
        self._kicks = Kicks(space, ledger, expect)
        self._at_origin = given is None
        self._given = list(given or ())
        self._draws_left = draws

    def put_first(self, traces: Sequence[Trace]) -> None:
        """Give these before all others."""
        self._given[:0] = traces

    def next(self) -> Schedule | None:
        """The next one; None, and a rejection, where it is no program."""
        workload = self._ledger.workload
        if self._given:
            trace = self._given.pop(0)
            return attempt(lambda: trace.replay(workload), self._ledger)
        if self._at_origin:
            self._at_origin = False
            return attempt(lambda: origin(self._space, workload), self._ledger)
        if self._draws_left > 0:
            self._draws_left -= 1
        elif self._rng.random() >= _DRAWN:
            near = self._kicks.next(self._rng)
            if near is not None:
                return near
        return draw(self._space, self._rng, self._ledger)

    def save(self) -> dict[str, Any]:
        """Everything in it as JSON values."""
        return {
            "rng": dump_rng(self._rng),
            "at_origin": self._at_origin,
            "given": [trace.to_json() for trace in self._given],
            "draws_left": self._draws_left,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue with what ``save`` gave."""
        load_rng(self._rng, stored["rng"])
        self._at_origin = bool(stored["at_origin"])
        self._given = [Trace.from_json(text, self._ledger.workload) for text in stored["given"]]
        self._draws_left = int(stored["draws_left"])
