"""The line searches of a descent: which are open, where they have been, and which goes on next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from schedlang.measurement import Measurement
from schedlang.search.coordinate_descent.line_search import AwaitedPoint, LineSearch
from schedlang.search.coordinate_descent.step_model import Move, StepModel, take
from schedlang.search.program import Program
from schedlang.search.proposals import Proposals, Told
from schedlang.search.strategy import Proposal
from schedlang.spaces.space import Space


class LineSearches:
    """Several line searches that share their proposals; each point is visited by one of them.

    Parameters
    ----------
    space: runs again for moves that change a choice.
    proposals: of all line searches; one may wait for the proposal of another.
    step_model: ranks the moves, and learns from them.
    significance: level of the t-test that a neighbour is faster (Droplet Search, 3.3).

    Attributes
    ----------
    converged: how many ended at a point without a faster neighbour, or that another had visited.
    measured: every outcome that was told, by id.
    """

    def __init__(
        self, space: Space, proposals: Proposals, step_model: StepModel, significance: float
    ) -> None:
        self.converged = 0
        self.measured: dict[int, Measurement] = {}
        self._space = space
        self._proposals = proposals
        self._step_model = step_model
        self._level = significance
        self._open: list[LineSearch] = []
        self._visited: dict[int, None] = {}

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def pending(self) -> int:
        """Number of outcomes that they wait for."""
        awaited = {id for line in self._open for id in (line.id, *line.awaited)}
        return sum(id not in self.measured for id in awaited)

    @property
    def best(self) -> float:
        """Lowest median latency in seconds; ValueError if nothing works."""
        return min(m.latency for m in self.measured.values() if m.ok)

    def open(self, program: Program) -> tuple[bool, Proposal | None]:
        """Start a line search; return whether it started, and the proposal if its start is new.

        None starts at a point that another has visited, or at a program that failed.
        """
        id, proposal = self._admit(program)
        if id in self._visited or self._failed(id):
            return False, None
        self._visited[id] = None
        self._open.append(LineSearch(id, program.trace))
        return True, proposal

    def extend(self, most_loss: float) -> Proposal | None:
        """Propose the most promising move of all line searches.

        ``None`` if there is none; line searches may have ended by then. Moves whose predicted
        slowdown (log ratio) exceeds ``most_loss`` are skipped.
        """
        while (promising := self._most_promising(most_loss)) is not None:
            line, move = promising
            line.tried[move] = None
            schedule = self._proposals.attempt(partial(take, self._space, line.trace, move))
            if schedule is None:
                continue
            program = Program(schedule)
            id, proposal = self._admit(program)
            if id != line.id:
                line.awaited[id] = AwaitedPoint(id, program.trace, line.id, move)
            if proposal is not None:
                return proposal
            self._follow(line)
        return None

    def tell(self, told: Iterable[Told]) -> int:
        """Go on with what was measured; return how many ended because their start failed."""
        self.measured |= {one.id: one.measurement for one in told}
        self._step_model.forget()  # even where no line waits for any of them
        return sum(self._follow(line) for line in list(self._open))

    def _admit(self, program: Program) -> tuple[int, Proposal | None]:
        """Return the id of a program, and a proposal if it is new; a known one is no rejection."""
        known = self._proposals.id_of(program.key)
        if known is not None:
            return known, None
        proposal = self._proposals.admit(program.schedule, program.key)
        assert proposal is not None
        return proposal.id, proposal

    def _failed(self, id: int) -> bool:
        return id in self.measured and not self.measured[id].ok

    def _most_promising(self, most_loss: float) -> tuple[LineSearch, Move] | None:
        """Return the line search and move with the lowest predicted latency, the first of equals.

        Line searches that have neither moves nor pending proposals have converged: they end.
        """
        found: list[tuple[float, LineSearch, Move]] = []
        for line in list(self._open):
            if line.id not in self.measured:
                continue
            offer = line.offer(self._step_model, most_loss)
            if offer is not None:
                latency = self.measured[line.id].latency
                found.append((math.log(latency) + offer[1], line, offer[0]))
            elif not line.awaited:
                self._step_model.screened += line.skipped(self._step_model)
                self._end(line)
        if not found:
            return None
        _, line, move = min(found, key=lambda one: one[0])
        return line, move

    def _follow(self, line: LineSearch) -> bool:
        """Go on to the best point that a line search knows of; return whether its start failed."""
        if line.id not in self.measured:
            return False
        if self._failed(line.id):
            self._open.remove(line)
            return True
        awaited = len(line.awaited)
        there = line.learn(self.measured, self._level, self._step_model.gains)
        if len(line.awaited) < awaited:
            self._step_model.forget()
        if there is None:
            return False
        if there.id in self._visited:
            self._end(line)
            return False
        self._visited[there.id] = None
        line.go(there, self._step_model.gains)
        return False

    def _end(self, line: LineSearch) -> None:
        self._open.remove(line)
        self.converged += 1

    def save(self) -> dict[str, Any]:
        """Return everything in it but the proposals, as JSON values."""
        return {
            "open": [line.save() for line in self._open],
            "visited": list(self._visited),
            "converged": self.converged,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue with what ``save`` returned; the proposals are loaded before."""
        self._open = [LineSearch.load(line, self._proposals.workload) for line in stored["open"]]
        self._visited = {int(id): None for id in stored["visited"]}
        self.converged = int(stored["converged"])
        self.measured = {told.id: told.measurement for told in self._proposals.told}
