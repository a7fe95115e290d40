"""What stands in for measuring: a model of programs, and a cheaper one of decisions."""

from __future__ import annotations

import time
from collections.abc import Sequence

from schedlang.search.evolutionary.metropolis import Screen, Values
from schedlang.search.evolutionary.population import Individual
from schedlang.search.evolutionary.ranking import pairwise_accuracy, recall_at
from schedlang.search.models.cost_model import CostModel, Example, energy, predict_known
from schedlang.search.models.decision_model import DecisionModel


class Surrogates:
    """A cost model, and maybe one of decisions that screens; both learn from the same outcomes.

    Attributes
    ----------
    seconds: wall time spent in the models.
    """

    def __init__(
        self, model: CostModel, decisions: DecisionModel | None, workload_key: str
    ) -> None:
        self._model = model
        self._decisions = decisions
        self._workload_key = workload_key
        self.seconds = 0.0

    @property
    def cost_model(self) -> CostModel:
        """The one on features."""
        return self._model

    @property
    def trained(self) -> bool:
        """Whether predictions rest on measurements."""
        return self._model.trained

    def learn(self, individuals: Sequence[Individual], latencies: Sequence[float | None]) -> None:
        """Learn from measured programs: latencies in seconds, None for those that failed."""
        started = time.perf_counter()
        self._model.update(
            [
                Example(individual.features, latency, self._workload_key)
                for individual, latency in zip(individuals, latencies, strict=True)
                if individual.features is not None
            ]
        )
        self._learn_decisions(individuals, latencies)
        self.seconds += time.perf_counter() - started

    def _learn_decisions(
        self, individuals: Sequence[Individual], latencies: Sequence[float | None]
    ) -> None:
        if self._decisions is not None:
            self._decisions.update([individual.values for individual in individuals], latencies)

    def scores(self, individuals: Sequence[Individual]) -> list[float]:
        """Predicted throughput over the best one's; 0 for programs without features.

        The mean of both models', which ranks better than either (``benchmarks/cost_model.py``:
        0.817 of pairs in the right order, where the cost model alone has 0.797).
        """
        started = time.perf_counter()
        scores = predict_known(self._model, [one.features for one in individuals], unknown=0.0)
        if individuals and self._decisions is not None and self._decisions.trained:
            others = self._decisions.predict([one.values for one in individuals])
            scores = [
                score if one.features is None else (score + float(other)) / 2
                for one, score, other in zip(individuals, scores, others, strict=True)
            ]
        self.seconds += time.perf_counter() - started
        return scores

    def energies(self, individuals: Sequence[Individual]) -> list[float]:
        """Logarithm of the predicted latency over the best one's."""
        return [energy(score) for score in self.scores(individuals)]

    @property
    def screen(self) -> Screen | None:
        """Energies by decisions alone; None without a model of them that has learned."""
        return self._screen if self._decisions is not None and self._decisions.trained else None

    def _screen(self, values: Sequence[Values]) -> list[float]:
        assert self._decisions is not None
        started = time.perf_counter()
        scores = self._decisions.predict(values)
        self.seconds += time.perf_counter() - started
        return [energy(float(score)) for score in scores]

    def ranking(
        self, individuals: Sequence[Individual], latencies: Sequence[float | None]
    ) -> str | None:
        """How well the cost model, which has not learned from these, ranks them; in words.

        None where there is nothing to tell apart.
        """
        scores = self.scores(individuals)
        k = max(1, len(latencies) // 4)
        accuracy, recall = pairwise_accuracy(scores, latencies), recall_at(k, scores, latencies)
        if accuracy is None or recall is None:
            return None
        return f"ranks {accuracy:.0%} of pairs, recall@{k} {recall:.0%}"

    def save(self) -> str:
        """What the cost model has learned; that of decisions learns it again."""
        return self._model.save()

    def load(
        self, text: str, individuals: Sequence[Individual], latencies: Sequence[float | None]
    ) -> None:
        """Continue with what ``save`` gave; the programs and latencies are all learned before."""
        self._model.load(text)
        if individuals:
            self._learn_decisions(individuals, latencies)
