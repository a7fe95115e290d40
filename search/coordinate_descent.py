"""Coordinate descent: Droplet Search, with several line searches at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from schedlang.measurement import Measurement
from schedlang.schedule import Schedule
from schedlang.search.drawing import PATIENCE, attempt, nothing_new
from schedlang.search.expectations import Expectations
from schedlang.search.ledger import Ledger
from schedlang.search.line_search import Line, Watched
from schedlang.search.neighbourhood import Move, Step, dump_move, load_move, take
from schedlang.search.saved_state import dump_state, load_state
from schedlang.search.starting_points import StartingPoints
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.space import Space
from schedlang.trace import Trace
from schedlang.tvm.program import structural_key
from schedlang.workload import Workload


class CoordinateDescent(Strategy):
    """Goes from a point to a neighbour that is surely faster, until there is none (Droplet Search).

    The coordinates of a trace are its draws and its choices; ``Distribution.neighbours`` gives the
    steps. A line search goes on as soon as a faster point is known, while others are pending: the
    outcomes that come late may still take it further. Several lines run at once, and the next
    proposal is always the one of which the lowest latency is expected, by what the step last did
    and by a model of the decisions (``Expectations``): so the best line goes first, and the others
    fill the batch (the open wish of the paper's 4.5). Equal programs are measured once, and a line
    that comes to where another one was ends.

    The first line starts at the origin of the space's distributions, the next ones at draws from
    the prior. Those that follow when lines end start near the fastest programs, several decisions
    away, where a model of the decisions expects most (``Kicks``); one in ten at a draw.

    Parameters
    ----------
    space, workload: what to search.
    seed: of the draws.
    start: traces to start at instead of the origin and the draws, measured first if they were not.
        What follows them starts near the fastest.
    lines: so many are open at once.
    pending: so many outcomes are waited for at most, as each of them may turn a line: ``ask`` gives
        fewer than it was asked for. More keep a larger machine busy, and need more trials.
    restarts: so many lines start in place of those that ended; None keeps starting them. A start
        that fails is replaced, and does not count.
    significance: level of the t-test that a neighbour is faster (Droplet Search, 3.3).
    most_loss: a step of which more than this is expected (logarithm of the latency after it over
        the one before) is left out, while lines may still start elsewhere and the model of
        decisions has learned enough.

    ValueError for numbers out of range.
    """

    name = "coordinate_descent"

    def __init__(
        self,
        space: Space,
        workload: Workload,
        seed: int = 0,
        *,
        start: Trace | Sequence[Trace] | None = None,
        lines: int = 8,
        pending: int = 4,
        restarts: int | None = None,
        significance: float = 0.05,
        most_loss: float = 0.2,
    ) -> None:
        if lines < 1 or pending < 1 or (restarts or 0) < 0 or not 0 < significance < 1:
            raise ValueError(
                f"lines={lines}, pending={pending}, restarts={restarts}, significance="
                f"{significance}: give 1 or more lines and pending proposals, 0 or more restarts, "
                "and a significance between 0 and 1"
            )
        if not most_loss >= 0:
            raise ValueError(f"most_loss={most_loss}: give 0 or more; math.inf leaves none out")
        given = [start] if isinstance(start, Trace) else start
        self._space = space
        self._ledger = Ledger(workload)
        self._expect = Expectations(self._ledger, seed)
        draws = lines - 1 if given is None else 0
        self._starts = StartingPoints(space, self._ledger, self._expect, seed, given, draws)
        self._most_lines = lines
        self._most_pending = pending
        self._level = significance
        self._most_loss = most_loss
        self._starts_left = math.inf if restarts is None else restarts
        self._starts_left += lines if given is None else len(given)
        self._barren = 0
        self._lines: list[Line] = []
        self._visited: dict[int, None] = {}
        self._measured: dict[int, Measurement] = {}
        self._converged = 0

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        room = min(n, self._most_pending - self._count_pending())
        while len(proposals) < room and self.finished is None:
            starts = self._may_start
            proposal = self._start_line() if starts else self._extend_line()
            if proposal is not None:
                proposals.append(proposal)
            elif not starts and not self._may_start:
                break
        return proposals

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        for told in self._ledger.settle(outcomes):
            self._measured[told.id] = told.measurement
        self._expect.forget()  # even where no line waits for any of them
        for line in list(self._lines):
            self._follow(line)

    @property
    def finished(self) -> str | None:
        if self._lines or self._may_start:
            return None
        if not self._converged:
            return nothing_new(self._barren, self._ledger)
        lines = "1 line" if self._converged == 1 else f"{self._converged} lines"
        best = min(m.latency for m in self._measured.values() if m.ok)
        return f"{lines} converged; best {best:.4g} s after {len(self._measured)} measurements"

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._ledger.rejections

    @property
    def report(self) -> str:
        return f"{len(self._lines)} lines descend, {self._converged} converged"

    @property
    def seconds(self) -> Mapping[str, float]:
        return {"model": self._expect.seconds}

    def suggest(self, traces: Sequence[Trace]) -> None:
        """Start the first lines there."""
        self.start_at(traces)

    # -- what another search explored ------------------------------------------------------------

    def adopt(self, schedule: Schedule) -> Proposal | None:
        """A proposal of a program that another search made; None if it was proposed before.

        Its outcome is told here, as that of any proposal. No line measures it again.
        """
        return self._ledger.admit(schedule)

    def start_at(self, traces: Sequence[Trace]) -> None:
        """Start lines here before any other."""
        self._starts.put_first(traces)
        self._starts_left += len(traces)

    # -- lines -----------------------------------------------------------------------------------

    @property
    def _has_starts(self) -> bool:
        """Whether lines may start yet, now or when others end."""
        return self._starts_left > 0 and self._barren < PATIENCE

    @property
    def _may_start(self) -> bool:
        return self._has_starts and len(self._lines) < self._most_lines

    def _count_pending(self) -> int:
        """How many outcomes the lines wait for."""
        awaited = {id for line in self._lines for id in (line.id, *line.watched)}
        return sum(id not in self._measured for id in awaited)

    def _start_line(self) -> Proposal | None:
        """Open a line; a proposal if its start is not measured."""
        schedule = self._starts.next()
        if schedule is None:
            self._barren += 1
            return None
        known = self._ledger.id_of(structural_key(schedule.mod))
        if known is not None and (known in self._visited or self._failed(known)):
            self._barren += 1
            return None
        proposal = self._ledger.admit(schedule) if known is None else None
        id = known if proposal is None else proposal.id
        assert id is not None
        self._barren = 0
        self._starts_left -= 1
        self._visited[id] = None
        self._lines.append(Line(id, schedule.trace))
        return proposal

    def _failed(self, id: int) -> bool:
        return id in self._measured and not self._measured[id].ok

    def _extend_line(self) -> Proposal | None:
        """The next move of the line that promises most; None, maybe, when a line ended."""
        while (promising := self._most_promising()) is not None:
            line, move = promising
            line.tried[move] = None
            schedule = attempt(partial(take, self._space, line.trace, move), self._ledger)
            if schedule is None:
                continue
            known = self._ledger.id_of(structural_key(schedule.mod))
            proposal = self._ledger.admit(schedule) if known is None else None
            id = known if proposal is None else proposal.id
            assert id is not None
            if id != line.id:
                line.watched[id] = Watched(id, schedule.trace, line.id, move)
            if proposal is not None:
                return proposal
            self._follow(line)
        return None

    def _most_promising(self) -> tuple[Line, Move] | None:
        """The line and its move of which the lowest latency is expected; the earlier of equals.

        Lines that have neither moves nor pending proposals converged: they end.
        """
        choosy = self._has_starts and self._expect.learn()
        most = self._most_loss if choosy else math.inf
        found: list[tuple[float, Line, Move]] = []
        for line in list(self._lines):
            if line.id not in self._measured:
                continue
            offer = line.offer(self._expect, most)
            if offer is not None:
                latency = self._measured[line.id].latency
                found.append((math.log(latency) + offer[1], line, offer[0]))
            elif not line.watched:
                self._lines.remove(line)
                self._converged += 1
        if not found:
            return None
        _, line, move = min(found, key=lambda one: one[0])
        return line, move

    def _follow(self, line: Line) -> None:
        """Go on to the best point that a line knows of by now."""
        if line.id not in self._measured:
            return
        if self._failed(line.id):
            self._lines.remove(line)
            self._starts_left += 1
            return
        awaited = len(line.watched)
        there = line.learn(self._measured, self._level, self._expect.gains)
        if len(line.watched) < awaited:
            self._expect.forget()
        if there is None:
            return
        if there.id in self._visited:
            self._lines.remove(line)
            self._converged += 1
            return
        self._visited[there.id] = None
        line.go(there, self._expect.gains)

    # -- the state -------------------------------------------------------------------------------

    def save(self) -> str:
        left = self._starts_left
        state = {
            "ledger": self._ledger.save(),
            "starts": self._starts.save(),
            "starts_left": None if math.isinf(left) else int(left),
            "barren": self._barren,
            "lines": [line.save() for line in self._lines],
            "visited": list(self._visited),
            "gains": [[dump_move((step,)), gain] for step, gain in self._expect.gains.items()],
            "converged": self._converged,
        }
        return dump_state(self.name, state)

    def load(self, state: str) -> None:
        def read(stored: Any) -> None:
            self._ledger.load(stored["ledger"])
            self._starts.load(stored["starts"])
            left = stored["starts_left"]
            self._starts_left = math.inf if left is None else int(left)
            self._barren = int(stored["barren"])
            self._lines = [Line.load(line, self._ledger.workload) for line in stored["lines"]]
            self._visited = {int(id): None for id in stored["visited"]}
            self._expect.gains = {_only(load_move(move)): gain for move, gain in stored["gains"]}
            self._measured = {told.id: told.measurement for told in self._ledger.told}
            self._converged = int(stored["converged"])

        load_state(self.name, state, read)


def _only(move: Move) -> Step:
    (step,) = move
    return step
