"""Cost models: they learn from measured programs, and rank programs that were not measured."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schedlang.errors import SchedlangError
from schedlang.search.state import dump_rng, load_rng
from schedlang.tvm.analysis.statement_features import Features

Scores = NDArray[np.float64]

# Lower scores count as this one: they say no more than "slow".
_LOWEST_SCORE = 0.02


class CostModelError(SchedlangError):
    """A stored model that cannot be read."""


@dataclass(frozen=True, eq=False)
class Example:
    """One measured program.

    Attributes
    ----------
    features: a row for each of its statements, (statements, 164), from
        ``schedlang.tvm.analysis.statement_features.statement_features``.
    latency: in seconds, positive; ``None`` if it failed to build, to run or to be right.
    workload_key: of the program before scheduling; latencies are comparable within one workload.
    weight: how much it counts, up to 1; less where other work leaves doubt about its latency.
    """

    features: Features = field(repr=False)
    latency: float | None
    workload_key: str
    weight: float = 1.0


class CostModel(Protocol):
    """Predicts how fast programs are; ``GradientBoosting``, ``RandomModel``, or a user's own.

    A model depends only on how it was made and on what it was updated with, in order, so that a
    search that uses it can be repeated. It does not change the examples.
    ``schedlang.testing.cost_models`` has the contract as a test suite.
    """

    name: str

    @property
    def trained(self) -> bool:
        """Whether its predictions rest on measurements; until then a search need not ask it."""
        ...

    def update(self, examples: Sequence[Example]) -> None:
        """Learn from new examples, besides all those before."""
        ...

    def predict(self, features: Sequence[Features]) -> Scores:
        """Score programs, (programs,), higher is faster.

        A score is about the throughput over that of the workload's best program, from 0 (slow or
        failing) to 1. Only the order within one workload counts.
        """
        ...

    def save(self) -> str:
        """Return all that it has learned as text; never pickled."""
        ...

    def load(self, text: str) -> None:
        """Become the model that ``save`` wrote; CostModelError if the text is unreadable."""
        ...


def plausible(score: float) -> float:
    """Return a score as a positive throughput over that of the best."""
    return max(score, _LOWEST_SCORE)


def energy(score: float) -> float:
    """Return a score as log(predicted latency / best latency)."""
    return -math.log(plausible(score))


def best_latencies(examples: Sequence[Example]) -> dict[str, float]:
    """Return the lowest latency of each workload that ever worked, in seconds."""
    best: dict[str, float] = {}
    for example in examples:
        if example.latency is not None:
            before = best.get(example.workload_key, example.latency)
            best[example.workload_key] = min(before, example.latency)
    return best


def throughputs(examples: Sequence[Example]) -> Scores:
    """Return throughputs over that of the workload's best, 0 for failures (Ansor, 5.2)."""
    best = best_latencies(examples)
    return np.array(
        [0.0 if e.latency is None else best[e.workload_key] / e.latency for e in examples]
    )


class RandomModel:
    """Scores drawn at random: the baseline of any model."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._trained = False

    @property
    def trained(self) -> bool:
        return self._trained

    def update(self, examples: Sequence[Example]) -> None:
        """Nothing to learn."""
        self._trained = self._trained or bool(examples)

    def predict(self, features: Sequence[Features]) -> Scores:
        return np.array([self._rng.random() for _ in features])

    def save(self) -> str:
        state = {"trained": self._trained, "state": dump_rng(self._rng)}
        return json.dumps({"model": self.name, **state})

    def load(self, text: str) -> None:
        stored = read_document(text, self.name, "trained", "state")
        try:
            load_rng(self._rng, stored["state"])
        except (TypeError, ValueError) as error:
            raise CostModelError(f"no state of a random generator: {error}") from None
        self._trained = bool(stored["trained"])


def read_document(text: str, model: str, *keys: str) -> dict[str, Any]:
    """Read the JSON object that ``model`` wrote, with these keys; else CostModelError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CostModelError(f"a stored cost model is JSON, and this is not: {error}") from None
    if not isinstance(document, dict) or document.get("model") != model:
        raise CostModelError(f"this is no stored model {model!r}")
    if missing := [key for key in keys if key not in document]:
        raise CostModelError(f"the stored model lacks {', '.join(missing)}")
    return document
