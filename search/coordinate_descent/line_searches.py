"""The line searches of a descent: which are open, where they have been, and whose turn it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurement
from schedlang.search.coordinate_descent.line_search import Line, Watched
from schedlang.search.coordinate_descent.neighbourhood import Move, take
from schedlang.search.coordinate_descent.step_model import Expectations
from schedlang.search.prior import attempt
from schedlang.search.proposals import Ledger, Told
from schedlang.search.strategy import Proposal
from schedlang.spaces.space import Space
from schedlang.tvm.program import structural_key


class Lines:
    """Several line searches over one ledger; no point is the start or a turn of two.

    Parameters
    ----------
    space: takes moves that change a choice.
    ledger: what was proposed; lines wait for each other's proposals.
    expect: ranks the moves, and learns from them.
    significance: level of the t-test that a neighbour is faster (Droplet Search, 3.3).

    Attributes
    ----------
    converged: how many ended at a point without a faster neighbour, or where another was.
    measured: every outcome that was told, by id.
    """

    def __init__(
        self, space: Space, ledger: Ledger, expect: Expectations, significance: float
    ) -> None:
        self.converged = 0
        self.measured: dict[int, Measurement] = {}
        self._space = space
        self._ledger = ledger
        self._expect = expect
        self._level = significance
        self._open: list[Line] = []
        self._visited: dict[int, None] = {}

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def pending(self) -> int:
        """How many outcomes they wait for."""
        awaited = {id for line in self._open for id in (line.id, *line.watched)}
        return sum(id not in self.measured for id in awaited)

    @property
    def best(self) -> float:
        """Lowest median latency in seconds; ValueError where nothing works."""
        return min(m.latency for m in self.measured.values() if m.ok)

    def open(self, schedule: Schedule) -> tuple[bool, Proposal | None]:
        """Whether a line started here, and the proposal if its start is not measured.

        None starts where another has been, or at a program that failed.
        """
        id, proposal = self._admit(schedule)
        if id in self._visited or self._failed(id):
            return False, None
        self._visited[id] = None
        self._open.append(Line(id, schedule.trace))
        return True, proposal

    def extend(self, most: float) -> Proposal | None:
        """The next move of the line that promises most; None, maybe, when a line ended.

        Moves of which more than ``most`` is expected are left out.
        """
        while (promising := self._most_promising(most)) is not None:
            line, move = promising
            line.tried[move] = None
            schedule = attempt(partial(take, self._space, line.trace, move), self._ledger)
            if schedule is None:
                continue
            id, proposal = self._admit(schedule)
            if id != line.id:
                line.watched[id] = Watched(id, schedule.trace, line.id, move)
            if proposal is not None:
                return proposal
            self._follow(line)
        return None

    def tell(self, told: Iterable[Told]) -> int:
        """Go on with what was measured; how many lines ended because their start failed."""
        self.measured |= {one.id: one.measurement for one in told}
        self._expect.forget()  # even where no line waits for any of them
        return sum(self._follow(line) for line in list(self._open))

    def _admit(self, schedule: Schedule) -> tuple[int, Proposal | None]:
        """The id of this program, and a proposal if it is new; a known one is no rejection."""
        key = structural_key(schedule.mod)
        known = self._ledger.id_of(key)
        if known is not None:
            return known, None
        proposal = self._ledger.admit(schedule, key)
        assert proposal is not None
        return proposal.id, proposal

    def _failed(self, id: int) -> bool:
        return id in self.measured and not self.measured[id].ok

    def _most_promising(self, most: float) -> tuple[Line, Move] | None:
        """The line and its move of which the lowest latency is expected; the earlier of equals.

        Lines that have neither moves nor pending proposals converged: they end.
        """
        found: list[tuple[float, Line, Move]] = []
        for line in list(self._open):
            if line.id not in self.measured:
                continue
            offer = line.offer(self._expect, most)
            if offer is not None:
                latency = self.measured[line.id].latency
                found.append((math.log(latency) + offer[1], line, offer[0]))
            elif not line.watched:
                self._end(line)
        if not found:
            return None
        _, line, move = min(found, key=lambda one: one[0])
        return line, move

    def _follow(self, line: Line) -> bool:
        """Go on to the best point that a line knows of by now; whether its start failed."""
        if line.id not in self.measured:
            return False
        if self._failed(line.id):
            self._open.remove(line)
            return True
        awaited = len(line.watched)
        there = line.learn(self.measured, self._level, self._expect.gains)
        if len(line.watched) < awaited:
            self._expect.forget()
        if there is None:
            return False
        if there.id in self._visited:
            self._end(line)
            return False
        self._visited[there.id] = None
        line.go(there, self._expect.gains)
        return False

    def _end(self, line: Line) -> None:
        self._open.remove(line)
        self.converged += 1

    def save(self) -> dict[str, Any]:
        """Everything in it but what the ledger holds, as JSON values."""
        return {
            "open": [line.save() for line in self._open],
            "visited": list(self._visited),
            "converged": self.converged,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue with what ``save`` gave; the ledger is loaded before."""
        self._open = [Line.load(line, self._ledger.workload) for line in stored["open"]]
        self._visited = {int(id): None for id in stored["visited"]}
        self.converged = int(stored["converged"])
        self.measured = {told.id: told.measurement for told in self._ledger.told}
