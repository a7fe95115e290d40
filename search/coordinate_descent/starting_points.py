"""Where line searches start: given traces, the prior's origin, draws, near the fastest."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.coordinate_descent.neighbourhood import origin
from schedlang.search.coordinate_descent.perturbation import Perturbation
from schedlang.search.coordinate_descent.step_model import StepModel
from schedlang.search.prior import draw
from schedlang.search.program import Program
from schedlang.search.proposals import Proposals
from schedlang.spaces.space import Space

# Share of the starts near the fastest that are draws from the prior instead.
_DRAWN = 0.1


class StartingPoints:
    """Gives the traces of ``given`` first, then ``draws`` draws from the prior.

    If ``given`` is ``None``, the origin of the space's distributions comes first. After the draws,
    nine of ten starts are near the fastest programs (``Perturbation``); the others, and those where
    nothing is known or nothing new is near, are draws as well.

    Parameters
    ----------
    rng: of the draws and perturbations; the caller saves it.
    """

    def __init__(
        self,
        space: Space,
        proposals: Proposals,
        step_model: StepModel,
        rng: random.Random,
        given: Sequence[Trace] | None,
        draws: int,
    ) -> None:
        self._space = space
        self._proposals = proposals
        self._rng = rng
        self._perturbation = Perturbation(space, proposals, step_model)
        self._at_origin = given is None
        self._given = list(given or ())
        self._draws_left = draws

    def put_first(self, traces: Sequence[Trace]) -> None:
        """Give these before all others."""
        self._given[:0] = traces

    def next(self) -> Program | None:
        """Make the next one; ``None``, and a rejection, if it cannot become a program."""
        if not self._given and not self._at_origin:
            if self._draws_left > 0:
                self._draws_left -= 1
            elif self._rng.random() >= _DRAWN:
                near = self._perturbation.next(self._rng)
                if near is not None:
                    return near
        schedule = self._make()
        return None if schedule is None else Program(schedule)

    def _make(self) -> Schedule | None:
        workload = self._proposals.workload
        if self._given:
            trace = self._given.pop(0)
            return self._proposals.attempt(lambda: trace.replay(workload))
        if self._at_origin:
            self._at_origin = False
            return self._proposals.attempt(lambda: origin(self._space, workload))
        return draw(self._space, self._rng, self._proposals)

    def save(self) -> dict[str, Any]:
        """Return everything in it but the generator, as JSON values."""
        return {
            "at_origin": self._at_origin,
            "given": [trace.to_json() for trace in self._given],
            "draws_left": self._draws_left,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue with what ``save`` returned."""
        self._at_origin = bool(stored["at_origin"])
        self._given = [Trace.from_json(text, self._proposals.workload) for text in stored["given"]]
        self._draws_left = int(stored["draws_left"])
