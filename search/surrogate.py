"""The surrogate of measuring: a cost model on programs, and optionally one on decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.measurement.stopwatch import Stopwatch
from schedlang.search.models.cost_model import CostModel, Example, energy, predict_known
from schedlang.search.models.decision_model import DecisionModel
from schedlang.search.program import Program

Values = Mapping[str, Any]


class Surrogate:
    """Predicts how fast programs are, and learns from those that were measured.

    Parameters
    ----------
    cost_model: on the features of programs.
    workload_key: of the program before scheduling.
    stopwatch: of the search; it counts the time of the models as ``model``.
    decision_model: on decisions alone; it learns from the same outcomes.
    without_features: score of a program that has no features.
    """

    def __init__(
        self,
        cost_model: CostModel,
        workload_key: str,
        stopwatch: Stopwatch,
        *,
        decision_model: DecisionModel | None = None,
        without_features: float = 0.0,
    ) -> None:
        self.cost_model = cost_model
        self._workload_key = workload_key
        self._stopwatch = stopwatch
        self._decision_model = decision_model
        self._without_features = without_features

    @property
    def trained(self) -> bool:
        """Whether predictions rest on measurements."""
        return self.cost_model.trained

    @property
    def screens(self) -> bool:
        """Whether the model on decisions has learned enough for ``screen``."""
        return self._decision_model is not None and self._decision_model.trained

    def learn(self, programs: Sequence[Program], latencies: Sequence[float | None]) -> None:
        """Learn from measured programs: latencies in seconds, ``None`` for a failure."""
        examples = [
            Example(program.features, latency, self._workload_key)
            for program, latency in zip(programs, latencies, strict=True)
            if program.features is not None
        ]
        with self._stopwatch.timing("model"):
            self.cost_model.update(examples)
            self._learn_decisions(programs, latencies)

    def _learn_decisions(
        self, programs: Sequence[Program], latencies: Sequence[float | None]
    ) -> None:
        if self._decision_model is not None:
            self._decision_model.update([program.values for program in programs], latencies)

    def scores(self, programs: Sequence[Program]) -> list[float]:
        """Predict the throughput of programs over that of the best one.

        The mean of both models, which ranks better than either (``benchmarks/cost_model.py``:
        0.817 of pairs in the right order, where the cost model alone has 0.797).
        """
        with self._stopwatch.timing("model"):
            features = [program.features for program in programs]
            scores = predict_known(self.cost_model, features, self._without_features)
            if programs and self._decision_model is not None and self._decision_model.trained:
                others = self._decision_model.predict([program.values for program in programs])
                scores = [
                    score if program.features is None else (score + float(other)) / 2
                    for program, score, other in zip(programs, scores, others, strict=True)
                ]
        return scores

    def energies(self, programs: Sequence[Program]) -> list[float]:
        """Predict the logarithm of the latency of programs over that of the best one."""
        return [energy(score) for score in self.scores(programs)]

    def screen(self, values: Sequence[Values]) -> list[float]:
        """Predict energies from decisions alone; needs ``screens``."""
        assert self._decision_model is not None
        with self._stopwatch.timing("model"):
            scores = self._decision_model.predict(values)
        return [energy(float(score)) for score in scores]

    def save(self) -> str:
        """Save the cost model; the model on decisions is trained again."""
        return self.cost_model.save()

    def load(
        self, text: str, programs: Sequence[Program] = (), latencies: Sequence[float | None] = ()
    ) -> None:
        """Restore the state from ``save``; ``programs`` are all earlier training examples."""
        self.cost_model.load(text)
        if programs:
            self._learn_decisions(programs, latencies)
