"""The cost model's part in a tree search: what it expects of rollouts, and what it learns."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.models.cost_model import CostModel, Example, predict_known
from schedlang.search.proposals import Told
from schedlang.tvm.analysis.features import Features, statement_features


class Adviser:
    """Scores programs by a cost model, and teaches it what came of those that were proposed.

    Attributes
    ----------
    model: the cost model.
    seconds: wall time spent on ``features`` and in the ``model``.
    """

    def __init__(self, model: CostModel, workload_key: str) -> None:
        self.model = model
        self._workload_key = workload_key
        self._proposed: dict[int, Features | None] = {}
        self.seconds = {"features": 0.0, "model": 0.0}

    @property
    def ready(self) -> bool:
        """Whether its advice rests on measurements."""
        return self.model.trained

    def scores(self, schedules: Sequence[Schedule]) -> list[float]:
        """The model's score of each program; minus infinity where it has no features."""
        features = self._features(schedules)
        started = time.perf_counter()
        found = predict_known(self.model, features, unknown=-math.inf)
        self.seconds["model"] += time.perf_counter() - started
        return found

    def propose(self, number: int, schedule: Schedule) -> None:
        """Remember what the model sees of a proposal."""
        [self._proposed[number]] = self._features([schedule])

    def tell(self, told: Sequence[Told]) -> None:
        """Update the model with what was measured."""
        examples: list[Example] = []
        for one in told:
            features = self._proposed.pop(one.id)
            if features is not None:
                examples.append(Example(features, one.latency, self._workload_key))
        if examples:
            started = time.perf_counter()
            self.model.update(examples)
            self.seconds["model"] += time.perf_counter() - started

    def save(self) -> str:
        """What the model has learned."""
        return self.model.save()

    def load(self, text: str, pending: Mapping[int, Trace]) -> None:
        """Continue with what ``save`` gave, while these proposals were pending."""
        self.model.load(text)
        for number, trace in pending.items():
            self.propose(number, trace.replay())

    def _features(self, schedules: Sequence[Schedule]) -> list[Features | None]:
        started = time.perf_counter()
        features = statement_features([schedule.raw for schedule in schedules])
        self.seconds["features"] += time.perf_counter() - started
        return features
