"""The points next to a trace (Droplet Search, 3.1), and what a step there is predicted to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.distributions import Distribution
from schedlang.distributions.base import Decision
from schedlang.instructions.choices import plain_decision
from schedlang.instructions.instruction import Instruction
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.stopwatch import Stopwatch
from schedlang.search.coordinate_descent.due import Due
from schedlang.search.models.cost_model import energy
from schedlang.search.models.decision_model import DecisionModel, site_values
from schedlang.search.proposals import Proposals
from schedlang.spaces.mutation import revise
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


@dataclass(frozen=True, order=True)
class Step:
    """Another decision at one site; of a choice, the number of another option."""

    site: str
    decision: Decision


Move = tuple[Step, ...]
"""Steps at different sites, taken together; the empty move is the trace itself."""


def origin(space: Space, workload: Workload) -> Schedule:
    """Make the program with every draw and choice at its origin; InstructionError if it fails."""
    return revise(Trace((), workload), {}, None, space=space)


def steps_from(trace: Trace) -> list[Step]:
    """List all steps of a trace in program order, as ``Distribution.neighbours`` orders them."""
    return [
        Step(instruction.site, decision)
        for instruction, distribution in _coordinates(trace)
        for decision in distribution.neighbours(instruction.decision)
    ]


def decision_at(trace: Trace, site: str) -> Decision | None:
    """Return what a trace decided, or chose, at a site; ``None`` if it lacks the site."""
    for instruction, _ in _coordinates(trace):
        if instruction.site == site:
            decision: Decision = instruction.decision
            return decision
    return None


def steps_onward(trace: Trace, site: str, before: Decision, here: Decision) -> list[Step]:
    """List the steps from ``here`` that go on in the direction from ``before`` to it.

    All numbers of a decision must go on changing in the same direction. Empty if the trace lacks
    the site, or if its distribution there does not permit ``here``.
    """
    for instruction, distribution in _coordinates(trace):
        if instruction.site == site and distribution.permits(here):
            direction = _direction(before, here)
            near = distribution.neighbours(here)
            return [Step(site, d) for d in near if _direction(here, d) == direction]
    return []


def take(space: Space, trace: Trace, move: Move) -> Schedule:
    """Make the program that ``move`` leads to.

    The recorded instructions are replayed. If the move changes a choice, the space's program runs
    again. Later draws whose distributions changed take the nearest decisions. Raises
    ``InvalidTrace`` or ``InstructionError`` if an instruction does not apply.
    """
    wanted = {step.site: step.decision for step in move}
    chooses = any(site in wanted for site in trace.choices)
    return revise(trace, wanted, None, space=space if chooses else None)


def dump_move(move: Move) -> list[list[Any]]:
    """Write a move as JSON values."""
    return [[step.site, step.decision] for step in move]


def load_move(stored: Iterable[Any]) -> Move:
    """Read a move that ``dump_move`` wrote."""
    return tuple(Step(str(site), plain_decision(decision)) for site, decision in stored)


def _coordinates(trace: Trace) -> list[tuple[Instruction, Distribution]]:
    return [(i, i.distribution) for i in trace.instructions if i.distribution is not None]


def _direction(start: Decision, end: Decision) -> list[int]:
    starts = start if isinstance(start, tuple) else (start,)
    ends = end if isinstance(end, tuple) else (end,)
    if len(starts) != len(ends):
        return []
    return [(b > a) - (b < a) for a, b in zip(starts, ends, strict=True)]


Gains = dict[Step, float]
"""Measured gain of each step: log(latency after it / latency before it), the last time."""

# Maximum gain (log ratio) that a measured step counts with: a failure may be chance.
_MOST_GAIN = 0.5
# The model predicts a little for every step; gains (log ratios) smaller than this count as none.
_NOTHING = 0.01


class StepModel:
    """Predicts the gain of steps: log(latency after / latency before), negative if it is faster.

    A step is predicted to do what it last did, wherever that was, and nothing if it was never
    taken. Once there are enough outcomes, a model of the decisions learns from all of them. From
    then on a step that was never taken is predicted by the model, any other by the mean of both.

    Parameters
    ----------
    proposals: the model learns their outcomes.
    seed: of the model.
    stopwatch: of the search; it counts the time of the model as ``model``.

    Attributes
    ----------
    gains: measured gain of each step, the last time.
    screened: number of candidates that were skipped for what is predicted.
    """

    def __init__(self, proposals: Proposals, seed: int, stopwatch: Stopwatch) -> None:
        self.gains: Gains = {}
        self.screened = 0
        self._proposals = proposals
        self._stopwatch = stopwatch
        self._model = DecisionModel(seed)
        self._due = Due()
        self._cache: dict[Trace, dict[Step, float]] = {}

    def learn(self) -> bool:
        """Train the model if that is due; return whether it has learned enough to predict."""
        new = self._due.new(self._proposals.told)
        if new:
            with self._stopwatch.timing("model"):
                values = [site_values(one.trace) for one in new]
                latencies = [one.latency for one in new]
                self._model.update(values, latencies, [one.trust for one in new])
        return self._model.trained

    def scores(self, candidates: Sequence[Mapping[str, Any]]) -> list[float]:
        """Score decisions by site with the model, higher is faster."""
        with self._stopwatch.timing("model"):
            return [float(score) for score in self._model.predict(candidates)]

    def of_steps(self, trace: Trace) -> dict[Step, float]:
        """Predict all steps of a trace, in program order.

        Computed once between two calls of ``forget``.
        """
        known = self._cache.get(trace)
        if known is None:
            known = self._cache[trace] = self._of_steps(trace)
        return known

    def _of_steps(self, trace: Trace) -> dict[Step, float]:
        steps = steps_from(trace)
        if not self.learn() or not steps:
            return {step: self.gains.get(step, 0.0) for step in steps}
        predicted = self._predict(trace, [(step,) for step in steps])
        return {
            step: (said + min(self.gains.get(step, said), max(said, _MOST_GAIN))) / 2
            for step, said in zip(steps, predicted, strict=True)
        }

    def of_all(self, trace: Trace, move: Move) -> float:
        """Predict steps taken together: by the model alone, once it has learned enough."""
        if self.learn():
            return self._predict(trace, [move])[0]
        expected = self.of_steps(trace)
        return sum(expected[step] for step in move)

    @property
    def threshold(self) -> float:
        """Gain below which a step is promising."""
        return -_NOTHING if self.learn() else 0.0

    def forget(self) -> None:
        """Forget predictions, because gains changed or more was told."""
        self._cache.clear()

    def save(self) -> list[Any]:
        """Return the gains as JSON values; the model learns again from the proposals."""
        return [[dump_move((step,)), gain] for step, gain in self.gains.items()]

    def load(self, stored: Iterable[Any]) -> None:
        """Continue with what ``save`` returned; the proposals are loaded before."""
        self.gains = {}
        for move, gain in stored:
            (step,) = load_move(move)
            self.gains[step] = float(gain)

    def _predict(self, trace: Trace, moves: Sequence[Move]) -> list[float]:
        here = site_values(trace)
        moved = [{**here, **{step.site: step.decision for step in move}} for move in moves]
        before, *after = map(energy, self.scores([here, *moved]))
        return [there - before for there in after]
