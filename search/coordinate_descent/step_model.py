"""What steps are expected to do: what they last did, and what a model of the decisions says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Trace
from schedlang.search.coordinate_descent.neighbourhood import (
    Move,
    Step,
    dump_move,
    load_move,
    steps_from,
)
from schedlang.search.models.cost_model import energy
from schedlang.search.models.decision_model import DecisionModel, site_values
from schedlang.search.proposals import Ledger

Gains = dict[Step, float]
"""What each step last did: the logarithm of the latency after it over the one before."""

# The model is asked once it has learned from so many outcomes; then it learns again whenever there
# are a 32nd more.
_ENOUGH = 24
_MORE = 32
# What a step once did counts as so much at most (a ratio's logarithm): a failure may be chance.
_MOST_GAIN = 0.5
# It predicts a little for every step; what it predicts below this (a ratio's logarithm) is nothing.
_NOTHING = 0.01


class Expectations:
    """Predicts the logarithm of the latency after a step over the one before it.

    Every step is expected to do what it last did, anywhere; of one that was never taken nothing is
    known, and nothing is expected. Once there are outcomes enough a model of the decisions, which
    learns from all of them, knows more: its word counts for steps that were never taken, and for
    the others the mean of both.

    Parameters
    ----------
    ledger: whose outcomes are learned.
    seed: of the model.

    Attributes
    ----------
    gains: what each step last did.
    seconds: wall time spent in the model.
    """

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.gains: Gains = {}
        self.seconds = 0.0
        self._ledger = ledger
        self._model = DecisionModel(seed)
        self._learned = 0
        self._due = _ENOUGH
        self._cache: dict[Trace, dict[Step, float]] = {}

    def learn(self) -> bool:
        """Teach the model what was told since, where that is due; whether it knows enough."""
        told = self._ledger.told
        learned = self._learned
        # What it has learned depends only on how many were told, however they came.
        while len(told) >= self._due:
            learned = self._due
            self._due += max(1, self._due // _MORE)
        if learned > self._learned:
            started = time.perf_counter()
            new = told[self._learned : learned]
            values = [site_values(one.trace) for one in new]
            self._model.update(values, [one.latency for one in new])
            self._learned = learned
            self.seconds += time.perf_counter() - started
        return self._model.trained

    def scores(self, candidates: Sequence[Mapping[str, Any]]) -> list[float]:
        """The model's scores of decisions by site, higher is faster."""
        started = time.perf_counter()
        found = [float(score) for score in self._model.predict(candidates)]
        self.seconds += time.perf_counter() - started
        return found

    def of_steps(self, trace: Trace) -> dict[Step, float]:
        """All steps of a trace, in program order, with what is expected of them.

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
        """What is expected of steps taken together; the model's word alone, once there is one."""
        if self.learn():
            return self._predict(trace, [move])[0]
        expected = self.of_steps(trace)
        return sum(expected[step] for step in move)

    @property
    def threshold(self) -> float:
        """A step of which less is expected is expected to gain."""
        return -_NOTHING if self.learn() else 0.0

    def forget(self) -> None:
        """Expect anew: the gains changed, or more was told."""
        self._cache.clear()

    def save(self) -> list[Any]:
        """The gains as JSON values; the model learns again from the ledger."""
        return [[dump_move((step,)), gain] for step, gain in self.gains.items()]

    def load(self, stored: Iterable[Any]) -> None:
        """Continue with what ``save`` gave; the ledger is loaded before."""
        self.gains = {}
        for move, gain in stored:
            (step,) = load_move(move)
            self.gains[step] = float(gain)

    def _predict(self, trace: Trace, moves: Sequence[Move]) -> list[float]:
        here = site_values(trace)
        moved = [{**here, **{step.site: step.decision for step in move}} for move in moves]
        before, *after = map(energy, self.scores([here, *moved]))
        return [there - before for there in after]
