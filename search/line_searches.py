"""Line searches: each to a surely faster neighbour, until there is none (Droplet, Figure 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from schedlang.language.schedule import Trace
from schedlang.measurement import Measurement
from schedlang.search.coordinate_models import (
    Gains,
    Move,
    ProgramModel,
    Step,
    StepModel,
    decision_at,
    dump_move,
    load_move,
    steps_onward,
    surely_faster,
    take,
)
from schedlang.search.proposal_kernel import Program, ProgramBuilder
from schedlang.search.proposals import Proposals, Told
from schedlang.search.strategy import Proposal
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

# The gain that stands for a step to a program that failed.
_FAILED = math.log(100)


@dataclass(frozen=True)
class AwaitedPoint:
    """A proposal whose outcome a line search waits for.

    Attributes
    ----------
    id: of the proposal.
    trace: how the line search came to the program.
    base: id of the point that ``move`` started from.
    move: the steps taken from there.
    """

    id: int
    trace: Trace
    base: int
    move: Move


@dataclass
class LineSearch:
    """A line search: the point where it is, and what it waits for.

    Attributes
    ----------
    id, trace: of the fastest point so far, where it is.
    back: the step that would undo the last one.
    tried: moves from here that were made: proposed, known already, or not applicable.
    awaited: proposals that it waits for, by id, also of earlier points.
    made: programs that moves from here lead to, made and not proposed.
    """

    id: int
    trace: Trace
    back: Step | None = None
    tried: dict[Move, None] = field(default_factory=dict)
    awaited: dict[int, AwaitedPoint] = field(default_factory=dict)
    made: dict[Move, Program] = field(default_factory=dict)

    def offers(
        self, step_model: StepModel, most_loss: float = math.inf
    ) -> Iterator[tuple[Move, float]]:
        """Yield the moves to try next and their predicted gains; none when all were tried.

        First comes the move that takes all promising steps together, if it promises more than each
        of them; then the steps one by one, the most promising first. While their outcomes are
        pending, speculation comes last. When they are known and none is faster, the line search has
        converged. Moves whose predicted slowdown (log ratio) exceeds ``most_loss`` are skipped.
        """
        for move, gain in self._moves(step_model):
            if move not in self.tried and gain <= most_loss:
                yield move, gain

    def skipped(self, step_model: StepModel) -> int:
        """Return the number of steps from here that were not tried."""
        return sum((step,) not in self.tried for step in step_model.of_steps(self.trace))

    def _moves(self, step_model: StepModel) -> Iterator[tuple[Move, float]]:
        expected = step_model.of_steps(self.trace)
        steps = sorted(expected, key=lambda step: expected[step])
        together = _one_a_site([step for step in steps if expected[step] < step_model.threshold])
        if len(together) > 1 and together not in self.tried:
            gain = step_model.of_all(self.trace, together)
            if gain < expected[steps[0]]:
                yield together, gain
        for step in steps:
            yield (step,), expected[step]
        if not any(one.base == self.id and len(one.move) == 1 for one in self.awaited.values()):
            return
        for ahead, move in self._speculate(steps):
            yield move, expected[ahead] + sum(expected.get(s, 0.0) for s in move if s != ahead)

    def _speculate(self, steps: Sequence[Step]) -> Iterator[tuple[Step, Move]]:
        """Speculate (differential speculation, 3.4).

        Moves to the next point in the direction of the last step, and to its neighbours.
        """
        if self.back is None:
            return
        site = self.back.site
        here = decision_at(self.trace, site)
        if here is None:
            return
        for ahead in steps_onward(self.trace, site, self.back.decision, here)[:1]:
            for further in steps_onward(self.trace, site, here, ahead.decision):
                yield ahead, (further,)
            for step in steps:
                if step.site != site:
                    yield ahead, tuple(sorted((ahead, step)))

    def learn(
        self, measured: Mapping[int, Measurement], level: float, gains: Gains
    ) -> AwaitedPoint | None:
        """Take in the outcomes that it waited for; return the fastest that is surely faster."""
        found: list[AwaitedPoint] = []
        for one in list(self.awaited.values()):
            if one.id not in measured:
                continue
            del self.awaited[one.id]
            after = measured[one.id]
            if len(one.move) == 1:
                gains[one.move[0]] = _gain(measured[one.base], after, level)
            if surely_faster(after, measured[self.id], level):
                found.append(one)
        return min(found, key=lambda one: (measured[one.id].latency, one.id), default=None)

    def go(self, there: AwaitedPoint, gains: Gains) -> None:
        """Go on from a point that was found; what it waits for stays awaited."""
        backward: list[Step] = []
        for step in there.move:
            before = decision_at(self.trace, step.site)
            if before is not None and before != step.decision:
                backward.append(Step(step.site, before))
                gains[backward[-1]] = -gains.get(step, 0.0)
        self.back = backward[0] if len(backward) == 1 else None
        self.id, self.trace = there.id, there.trace
        self.tried, self.made = {}, {}

    def save(self) -> dict[str, Any]:
        """Return everything in it as JSON values."""
        return {
            "id": self.id,
            "trace": self.trace.to_json(),
            "back": dump_move(() if self.back is None else (self.back,)),
            "tried": [dump_move(move) for move in self.tried],
            "awaited": [
                [one.id, one.trace.to_json(), one.base, dump_move(one.move)]
                for one in self.awaited.values()
            ],
        }

    @staticmethod
    def load(stored: Mapping[str, Any], workload: Workload) -> LineSearch:
        """Make the line search that ``save`` returned."""
        awaited = [
            AwaitedPoint(int(id), Trace.from_json(trace, workload), int(base), load_move(move))
            for id, trace, base, move in stored["awaited"]
        ]
        return LineSearch(
            int(stored["id"]),
            Trace.from_json(stored["trace"], workload),
            next(iter(load_move(stored["back"])), None),
            dict.fromkeys(load_move(move) for move in stored["tried"]),
            {one.id: one for one in awaited},
        )


def _one_a_site(steps: list[Step]) -> Move:
    """Take the first step of each site."""
    first: dict[str, Step] = {}
    for step in steps:
        first.setdefault(step.site, step)
    return tuple(sorted(first.values()))


def _gain(before: Measurement, after: Measurement, level: float) -> float:
    """Logarithm of the latency after over that before; a gain counts only if it is significant."""
    if not after.ok:
        return _FAILED
    gain = math.log(after.latency / before.latency)
    return gain if gain > 0 or surely_faster(after, before, level) else 0.0


# -- All of a descent: which are open, where they have been, and which goes on next --------------

_Offer: TypeAlias = tuple[LineSearch, Move]
"""A line search, and a move from where it is."""


class LineSearches:
    """Several line searches that share their proposals; each point is visited by one of them.

    Parameters
    ----------
    space: runs again for moves that change a choice.
    proposals: of all line searches; one may wait for the proposal of another.
    step_model: ranks the moves, and learns from them.
    builder: makes programs.
    program_model: picks among the programs that the best moves lead to.
    significance: level of the t-test that a neighbour is faster (Droplet Search, 3.3).

    Attributes
    ----------
    converged: how many ended at a point without a faster neighbour, or that another had visited.
    measured: every outcome that was told, by id.
    """

    def __init__(
        self,
        space: Space,
        proposals: Proposals,
        step_model: StepModel,
        builder: ProgramBuilder,
        program_model: ProgramModel,
        significance: float,
    ) -> None:
        self.converged = 0
        self.measured: dict[int, Measurement] = {}
        self._space = space
        self._proposals = proposals
        self._step_model = step_model
        self._builder = builder
        self._program_model = program_model
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
        while promising := self._most_promising(most_loss):
            new = self._new(promising)
            if not new:
                continue
            programs = [line.made[move] for line, move in new]
            line, move = new[self._program_model.fastest(programs)]
            program = line.made.pop(move)
            line.tried[move] = None
            id, proposal = self._admit(program)
            line.awaited[id] = AwaitedPoint(id, program.trace, line.id, move)
            return proposal
        return None

    def _new(self, promising: Sequence[_Offer]) -> list[_Offer]:
        """Make the programs of moves, and return those that lead to different new ones.

        Empty if a move leads to a program that was proposed: its line may have gone on.
        """
        missing = [(line, move) for line, move in promising if move not in line.made]
        made = self._builder.make(lambda one: take(self._space, one[0].trace, one[1]), missing)
        for (line, move), program in zip(missing, made, strict=True):
            if program is None:
                line.tried[move] = None
            else:
                line.made[move] = program
        new: dict[str, _Offer] = {}
        met: dict[int, LineSearch] = {}
        for line, move in promising:
            if move not in line.made:
                continue
            program = line.made[move]
            id = self._proposals.id_of(program.key)
            if id is None:
                new.setdefault(program.key, (line, move))
                continue
            del line.made[move]
            line.tried[move] = None
            met[line.id] = line
            if id != line.id:
                line.awaited[id] = AwaitedPoint(id, program.trace, line.id, move)
        for line in met.values():
            self._follow(line)
        return [] if met else list(new.values())

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
        self._program_model.note(proposal.id, program)
        return proposal.id, proposal

    def _failed(self, id: int) -> bool:
        return id in self.measured and not self.measured[id].ok

    def _most_promising(self, most_loss: float) -> list[_Offer]:
        """Return line searches and moves with the lowest predicted latencies, the first of equals.

        As many as the model of programs compares. Line searches that have neither moves nor pending
        proposals have converged: they end.
        """
        count = self._program_model.compared
        found: list[tuple[float, LineSearch, Move]] = []
        for line in list(self._open):
            if line.id not in self.measured:
                continue
            offers = list(islice(line.offers(self._step_model, most_loss), count))
            latency = math.log(self.measured[line.id].latency)
            found += [(latency + gain, line, move) for move, gain in offers]
            if not offers and not line.awaited:
                self._step_model.screened += line.skipped(self._step_model)
                self._end(line)
        found.sort(key=lambda one: one[0])
        return [(line, move) for _, line, move in found[:count]]

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
