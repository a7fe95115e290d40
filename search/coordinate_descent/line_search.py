"""One line search: to a surely faster neighbour, until there is none (Droplet, Figure 4)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.language.schedule import Trace
from schedlang.measurement import Measurement
from schedlang.search.coordinate_descent.models import (
    Gains,
    Move,
    Step,
    StepModel,
    decision_at,
    dump_move,
    load_move,
    steps_onward,
)
from schedlang.search.program_builder import Program
from schedlang.workloads.workload import Workload


def surely_faster(one: Measurement, other: Measurement, level: float) -> bool:
    """Return whether ``one`` is faster than ``other`` at this level of significance.

    A failure is slower than anything that works. Samples are compared as in Droplet Search, 3.3;
    where other work on the machine disturbed them, their bounds decide.
    """
    if not one.ok or not other.ok:
        return one.ok
    if one.trust < 1 or other.trust < 1:
        return _bounds(one)[1] < _bounds(other)[0]
    return p_value(one.samples, other.samples) < level


def _bounds(one: Measurement) -> tuple[float, float]:
    """Return what its latency is at least and at most, in seconds."""
    if one.disturbance is None:
        return min(one.samples), max(one.samples)
    return one.disturbance.low, one.disturbance.high


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Compute the p-value of a one-sided t-test that the mean of ``one`` is below ``other``'s.

    Welch's test, because a program that was given up early has fewer samples. With a single sample
    on one side, Student's test with the variance of the other side. Without any variance the
    p-value is 0 if the mean of ``one`` is lower, else 1.
    """
    difference = statistics.fmean(one) - statistics.fmean(other)
    squared, freedom = _squared_error(one, other)
    if squared <= 0:
        return 0.0 if difference < 0 else 1.0
    from scipy.special import stdtr

    return float(stdtr(freedom, difference / math.sqrt(squared)))


def _squared_error(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Squared error of the difference of the means, and its degrees of freedom; 0 if unknown."""
    few, many = sorted((one, other), key=len)
    if len(many) < 2:
        return 0.0, 0.0
    if len(few) < 2:
        return _variance(many) * (1 + 1 / len(many)), len(many) - 1
    parts = [(_variance(s) / len(s), len(s) - 1) for s in (few, many)]
    total = math.fsum(part for part, _ in parts)
    spread = math.fsum(part * part / freedom for part, freedom in parts)
    return total, total * total / spread if spread > 0 else 0.0


def _variance(samples: Sequence[float]) -> float:
    """Return the sample variance; that of ``statistics`` is exact, and takes far longer."""
    mean = statistics.fmean(samples)
    return math.fsum((one - mean) ** 2 for one in samples) / (len(samples) - 1)


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
