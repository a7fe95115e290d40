"""One line search: from a point to a faster neighbour, until there is none (Droplet, Figure 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.language.schedule import Trace
from schedlang.measurement import Measurement
from schedlang.search.coordinate_descent.neighbourhood import (
    Move,
    Step,
    decision_at,
    dump_move,
    load_move,
    steps_onward,
)
from schedlang.search.coordinate_descent.significance import surely_faster
from schedlang.search.coordinate_descent.step_model import Expectations, Gains
from schedlang.workloads.workload import Workload

# The gain that stands for a step to a program that failed.
_FAILED = math.log(100)


@dataclass(frozen=True)
class Watched:
    """A proposal, by its id, whose outcome a line waits for.

    Attributes
    ----------
    trace: the line's own way to the program.
    base: id of the point that ``move`` started from.
    """

    id: int
    trace: Trace
    base: int
    move: Move


@dataclass
class Line:
    """Where a line search is.

    Attributes
    ----------
    id, trace: of the fastest point so far, where it is.
    back: the step that would undo the last one.
    tried: moves from here that were proposed, lead to known programs, or to none.
    watched: what it waits for, by id; of points before this one too.
    """

    id: int
    trace: Trace
    back: Step | None = None
    tried: dict[Move, None] = field(default_factory=dict)
    watched: dict[int, Watched] = field(default_factory=dict)

    def offer(self, expect: Expectations, most: float = math.inf) -> tuple[Move, float] | None:
        """The move to try next and what is expected of it; None when all were tried.

        First come all steps together that are expected to gain, if more is expected of that than of
        one of them, then the steps one by one, the best first. While outcomes of those are pending,
        speculation comes last; when they are known, and none is faster, the line is through. Moves
        of which more than ``most`` is expected are left out.
        """
        return next(
            (
                (move, gain)
                for move, gain in self._moves(expect)
                if move not in self.tried and gain <= most
            ),
            None,
        )

    def _moves(self, expect: Expectations) -> Iterator[tuple[Move, float]]:
        expected = expect.of_steps(self.trace)
        steps = sorted(expected, key=lambda step: expected[step])
        together = _one_a_site([step for step in steps if expected[step] < expect.threshold])
        if len(together) > 1 and together not in self.tried:
            gain = expect.of_all(self.trace, together)
            if gain < expected[steps[0]]:
                yield together, gain
        for step in steps:
            yield (step,), expected[step]
        if not any(one.base == self.id and len(one.move) == 1 for one in self.watched.values()):
            return
        for ahead, move in self._speculate(steps):
            yield move, expected[ahead] + sum(expected.get(s, 0.0) for s in move if s != ahead)

    def _speculate(self, steps: Sequence[Step]) -> Iterator[tuple[Step, Move]]:
        """Differential speculation (3.4): the next point in the direction of the last step, and
        moves to its neighbours.
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
    ) -> Watched | None:
        """Take in the outcomes it waited for; the fastest of those that are surely faster."""
        found: list[Watched] = []
        for one in list(self.watched.values()):
            if one.id not in measured:
                continue
            del self.watched[one.id]
            after = measured[one.id]
            if len(one.move) == 1:
                gains[one.move[0]] = _gain(measured[one.base], after, level)
            if surely_faster(after, measured[self.id], level):
                found.append(one)
        return min(found, key=lambda one: (measured[one.id].latency, one.id), default=None)

    def go(self, there: Watched, gains: Gains) -> None:
        """Search on from a point that was found; what it waits for it goes on waiting for."""
        backward: list[Step] = []
        for step in there.move:
            before = decision_at(self.trace, step.site)
            if before is not None and before != step.decision:
                backward.append(Step(step.site, before))
                gains[backward[-1]] = -gains.get(step, 0.0)
        self.back = backward[0] if len(backward) == 1 else None
        self.id, self.trace = there.id, there.trace
        self.tried = {}

    def save(self) -> dict[str, Any]:
        """Everything in it as JSON values."""
        return {
            "id": self.id,
            "trace": self.trace.to_json(),
            "back": dump_move(() if self.back is None else (self.back,)),
            "tried": [dump_move(move) for move in self.tried],
            "watched": [
                [one.id, one.trace.to_json(), one.base, dump_move(one.move)]
                for one in self.watched.values()
            ],
        }

    @staticmethod
    def load(stored: Mapping[str, Any], workload: Workload) -> Line:
        """The line that ``save`` gave."""
        watched = [
            Watched(int(id), Trace.from_json(trace, workload), int(base), load_move(move))
            for id, trace, base, move in stored["watched"]
        ]
        return Line(
            int(stored["id"]),
            Trace.from_json(stored["trace"], workload),
            next(iter(load_move(stored["back"])), None),
            dict.fromkeys(load_move(move) for move in stored["tried"]),
            {one.id: one for one in watched},
        )


def _one_a_site(steps: list[Step]) -> Move:
    """The first step of each site."""
    first: dict[str, Step] = {}
    for step in steps:
        first.setdefault(step.site, step)
    return tuple(sorted(first.values()))


def _gain(before: Measurement, after: Measurement, level: float) -> float:
    """A loss counts as it was measured, a gain only where it is significant."""
    if not after.ok:
        return _FAILED
    gain = math.log(after.latency / before.latency)
    return gain if gain > 0 or surely_faster(after, before, level) else 0.0
