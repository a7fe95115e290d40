"""The surrogate of measuring: models on programs and decisions, and how well they rank.

A user may give the cost model. So its members are checked before it is used, and its scores at
each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schedlang.measurement.clock import Stopwatch
from schedlang.measurement.protocol import check_method, check_values
from schedlang.search.cost_model import CostModel, CostModelError, Example, Scores, energy
from schedlang.search.gradient_boosting import DecisionModel
from schedlang.search.proposal_kernel import Program
from schedlang.search.proposals import Told
from schedlang.tvm.analysis.work import Features

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

    TypeError for a cost model that lacks a member; CostModelError where its scores are not one
    finite number for each program.
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
        check_cost_model(cost_model)
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

    def learn(self, programs: Sequence[Program], told: Sequence[Told]) -> None:
        """Learn from measured programs, and what was told of each."""
        examples = [
            Example(program.features, one.latency, self._workload_key, one.trust)
            for program, one in zip(programs, told, strict=True)
            if program.features is not None
        ]
        with self._stopwatch.timing("model"):
            self.cost_model.update(examples)
            self._learn_decisions(programs, told)

    def _learn_decisions(self, programs: Sequence[Program], told: Sequence[Told]) -> None:
        if self._decision_model is not None:
            latencies, trusts = [one.latency for one in told], [one.trust for one in told]
            self._decision_model.update([one.values for one in programs], latencies, trusts)

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

    def load(self, text: str, programs: Sequence[Program] = (), told: Sequence[Told] = ()) -> None:
        """Restore the state from ``save``; ``programs`` are all that it learned from."""
        self.cost_model.load(text)
        if programs:
            self._learn_decisions(programs, told)


TIE = 0.01
"""Latencies whose relative difference is below this count as equal."""


def pairwise_accuracy(predicted: ArrayLike, latencies: Sequence[float | None]) -> float | None:
    """Compute the share of pairs of programs that the scores put in the right order.

    Parameters
    ----------
    predicted: a score for each program, higher is faster.
    latencies: in seconds; ``None`` for a program that failed, which is slower than all that work.

    Pairs whose latencies are within 1% of each other, or that both failed, do not count; equal
    scores are half right. ``None`` when no pair counts.
    """
    scores, times = _checked(predicted, latencies)
    first, second = np.triu_indices(len(times), k=1)
    first_wins = times[second] > times[first] * (1 + TIE)
    second_wins = times[first] > times[second] * (1 + TIE)
    counts = int(np.sum(first_wins | second_wins))
    if not counts:
        return None
    first_higher, tied = scores[first] > scores[second], scores[first] == scores[second]
    right = np.where(first_higher, first_wins, second_wins) & ~tied
    half = tied & (first_wins | second_wins)
    return float((np.sum(right) + np.sum(half) / 2) / counts)


def recall_at(k: int, predicted: ArrayLike, latencies: Sequence[float | None]) -> float | None:
    """Compute the share of the ``k`` highest scores that belong to the ``k`` fastest programs.

    Programs within 1% of the k-th fastest count among them. ``None`` when fewer than ``k`` programs
    work; ValueError when ``k`` is below 1.
    """
    scores, times = _checked(predicted, latencies)
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if np.isfinite(times).sum() < k:
        return None
    limit = np.sort(times)[k - 1] * (1 + TIE)
    chosen = np.argsort(-scores, kind="stable")[:k]
    return float(np.mean(times[chosen] <= limit))


def describe_ranking(predicted: Sequence[float], latencies: Sequence[float | None]) -> str | None:
    """Say in a few words how well the scores rank the programs; ``None`` if no pair differs."""
    k = max(1, len(latencies) // 4)
    accuracy = pairwise_accuracy(predicted, latencies)
    recall = recall_at(k, predicted, latencies)
    if accuracy is None or recall is None:
        return None
    return (
        f"the cost model put {accuracy:.0%} of pairs in the right order, and knew "
        f"{recall:.0%} of the fastest {k}"
    )


def _checked(
    predicted: ArrayLike, latencies: Sequence[float | None]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores and latencies as arrays, failures as infinite; ValueError on a mismatch."""
    scores = np.asarray(predicted, dtype=np.float64)
    times = np.array([np.inf if t is None else t for t in latencies], dtype=np.float64)
    if scores.shape != times.shape:
        raise ValueError(f"{scores.size} scores for {times.size} programs")
    return scores, times


# -- Checks of a user's cost model ----------------------------------------------------------------


def check_cost_model(model: object) -> None:
    """TypeError for a member that a cost model lacks or that cannot be used; nothing is asked."""
    if isinstance(model, type):
        raise TypeError(f"cost_model={model.__name__} is a class; give an instance of it")
    what = f"cost_model: {type(model).__name__}"
    for name in ("name", "trained"):
        if not hasattr(model, name):
            raise TypeError(f"{what} has no {name!r}; see schedlang.search.CostModel")
    check_values(what, model, "name", "trained")
    check_method(what, model, "update", "examples")
    check_method(what, model, "predict", "features")
    check_method(what, model, "save")
    check_method(what, model, "load", "text")


def checked_scores(model: CostModel, features: Sequence[Features]) -> Scores:
    """Return the scores of programs, (programs,); CostModelError where they are none.

    That is where they are no numbers, not one for each program, or not finite.
    """
    found = model.predict(features)
    what = f"cost_model: {type(model).__name__}.predict"
    try:
        scores = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        scores = None
    if scores is None or (found is None):
        raise CostModelError(
            f"{what} returned {type(found).__name__}, which is no array of numbers; return one "
            "score for each program, higher is faster"
        )
    if scores.shape != (len(features),):
        raise CostModelError(
            f"{what} returned scores of shape {scores.shape} for {len(features)} programs; return "
            f"one score for each, shape ({len(features)},)"
        )
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        raise CostModelError(
            f"{what} returned {scores[wrong[0]]} for program {wrong[0]} of {len(features)}; scores "
            "are finite, from 0 (slow or failing) to 1"
        )
    return scores


def predict_known(
    model: CostModel, features: Sequence[Features | None], unknown: float
) -> list[float]:
    """Score programs in one call of the model; ``unknown`` for those without features."""
    known = [table for table in features if table is not None]
    found = iter(checked_scores(model, known) if known else ())
    return [unknown if table is None else float(next(found)) for table in features]
