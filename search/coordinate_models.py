"""What a descent learns: a model of steps from trace to trace, and a model of programs.

The points next to a trace differ from it in one step (Droplet Search, 3.1). The model of steps
predicts what a step does. The model of programs picks among the few points that their decisions
rank first. ``Due`` says when they learn again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.distributions import Distribution
from schedlang.distributions.base import Decision
from schedlang.instructions.choices import plain_decision
from schedlang.instructions.instruction import Instruction
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Measurement
from schedlang.measurement.clock import Stopwatch
from schedlang.search.cost_model import CostModel, energy
from schedlang.search.gradient_boosting import DecisionModel, site_values
from schedlang.search.proposal_kernel import Program, ProgramBuilder
from schedlang.search.proposals import Proposals, Told
from schedlang.search.strategy import Estimate
from schedlang.search.surrogate import Surrogate
from schedlang.spaces.mutation import revise
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

# -- The points next to a trace, and what a step there is predicted to do -------------------------


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


# -- A model of programs --------------------------------------------------------------------------

# Programs that are made for each that is proposed, once the model has learned.
_COMPARED = 4


class ProgramModel:
    """Predicts how fast programs are by the features of their statements.

    It ranks better than a model of the decisions (``benchmarks/searches.py``), but the programs
    have to be made, which takes milliseconds: so it only picks among the first few.

    Parameters
    ----------
    proposals: the model learns their outcomes.
    builder: makes programs with their features.
    cost_model: one that is trained already is used from the start.
    stopwatch: of the search; it counts the time of the model as ``model``.

    Attributes
    ----------
    estimate: ranks programs until the model has learned; None where the target has none.
    """

    def __init__(
        self,
        proposals: Proposals,
        builder: ProgramBuilder,
        cost_model: CostModel,
        stopwatch: Stopwatch,
    ) -> None:
        self.cost_model = cost_model
        self.estimate: Estimate | None = None
        self._proposals = proposals
        self._builder = builder
        self._stopwatch = stopwatch
        self._surrogate = Surrogate(cost_model, proposals.workload.key, stopwatch)
        self._programs: dict[int, Program] = {}
        self._due = Due()
        self._learned = False
        self._taught: str | None = None

    def note(self, id: int, program: Program) -> None:
        """Keep the program of a proposal until its outcome is learned."""
        self._programs[id] = program

    @property
    def compared(self) -> int:
        """Number of programs to make for each proposal."""
        self._learn()
        return _COMPARED if self.cost_model.trained or self.estimate is not None else 1

    def fastest(self, programs: Sequence[Program]) -> int:
        """Return the index of the program that is predicted to be the fastest, the first of equals.

        One without features is predicted to be as slow as any.
        """
        if len(programs) < 2:
            return 0
        if self.cost_model.trained:
            expected = self._surrogate.energies(programs)
        elif self.estimate is not None:
            with self._stopwatch.timing("model"):
                expected = [self.estimate(one.schedule.mod) for one in programs]
        else:
            return 0
        return expected.index(min(expected))

    def _learn(self) -> None:
        new = self._due.new(self._proposals.told)
        if not new:
            return
        self._taught = self.save()
        self._learned = True
        # Those proposed before the search was loaded are only traces now.
        missing = [one for one in new if one.id not in self._programs]
        made = self._builder.replay([one.trace for one in missing])
        for one, program in zip(missing, made, strict=True):
            if program is not None:
                self._programs[one.id] = program
        seen = [one for one in new if one.id in self._programs]
        self._surrogate.learn([self._programs.pop(one.id) for one in seen], seen)

    def save(self) -> str | None:
        """Return what the cost model knew before the first outcome; it learns those again."""
        if not self._learned:
            return self.cost_model.save() if self.cost_model.trained else None
        return self._taught

    def load(self, stored: str | None) -> None:
        """Continue with what ``save`` returned; the proposals are loaded before."""
        if stored is not None:
            self.cost_model.load(stored)


# -- When the models learn again ------------------------------------------------------------------

# Outcomes before a model first learns; it learns again whenever there are a 32nd more.
_ENOUGH = 12
_MORE = 32


class Due:
    """Says which outcomes a model learns, and when: by their number, whatever the batches were."""

    def __init__(self) -> None:
        self._learned = 0
        self._next = _ENOUGH

    def new(self, told: Sequence[Told]) -> Sequence[Told]:
        """Return the outcomes to learn now, none if it is not due; they count as learned then."""
        learned = self._learned
        while len(told) >= self._next:
            learned = self._next
            self._next += max(1, self._next // _MORE)
        new = told[self._learned : learned]
        self._learned = learned
        return new


# -- Whether a step led to a faster program: the t-test of Droplet Search, 3.3 ---------------------


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
