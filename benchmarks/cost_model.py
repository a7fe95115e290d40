"""Measure how well the cost models rank unseen programs.

Random programs of the CPU space are measured once and put in several random orders. For each
order, every model is trained on the first 32, 64 and 128 programs and ranks the last 64. Reported,
as means over workloads and orders: the fraction of pairs ranked correctly, and how many of the 8
fastest programs are among the 8 with the highest scores. The models:

* ``afresh``: ``GradientBoosting``, which trains on all examples after every round of 16;
* ``incremental``: keeps the trees of earlier rounds and adds new ones;
* ``decisions``: ``DecisionModel``, which needs no program;
* ``both``: the sum of the scores of ``afresh`` and ``decisions``;
* ``XGBModel``: TVM's model, if its dependencies are installed (the ``bench`` extra).

Measuring takes minutes per workload; ``--data FILE`` stores the measurements for later runs.
``--cores 1`` runs the programs on one core, which gives clean latencies on a busy machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import _xgb_model
import numpy as np
from _measured import measured_programs
from _results import store

import schedlang as sl
from schedlang.distributions.base import Decision
from schedlang.search.cost_model import CostModel, Example, RandomModel, Scores, throughputs
from schedlang.search.gradient_boosting import (
    LEAST_WEIGHT,
    ROUNDS,
    DecisionModel,
    GradientBoosting,
    site_values,
    train_booster,
)
from schedlang.search.surrogate import pairwise_accuracy, recall_at
from schedlang.tvm.analysis.work import statement_features

WORKLOADS = ("GMM", "C2D", "SFM", "T2D")
PROGRAMS, UNSEEN, TRAINED_ON = 192, 64, (32, 64, 128)
ROUND, BEST = 16, 8


@dataclass(frozen=True)
class Program:
    """A measured program: the inputs of the models, and its latency."""

    example: Example
    values: Mapping[str, Decision]


class Ranker(Protocol):
    """A cost model that may use features, decisions or both."""

    def learn(self, programs: Sequence[Program]) -> None: ...
    def score(self, programs: Sequence[Program]) -> Scores: ...


class OfFeatures:
    """A cost model that is trained in one update."""

    def __init__(self, model: CostModel | _xgb_model.TvmModel) -> None:
        self._model = model

    def learn(self, programs: Sequence[Program]) -> None:
        self._model.update([program.example for program in programs])

    def score(self, programs: Sequence[Program]) -> Scores:
        return self._model.predict([program.example.features for program in programs])


class OfDecisions:
    """The model on decisions."""

    def __init__(self, seed: int) -> None:
        self._model = DecisionModel(seed)

    def learn(self, programs: Sequence[Program]) -> None:
        latencies = [program.example.latency for program in programs]
        self._model.update([program.values for program in programs], latencies)

    def score(self, programs: Sequence[Program]) -> Scores:
        return self._model.predict([program.values for program in programs])


class Both:
    """Features and decisions: the sum of the scores."""

    def __init__(self, seed: int) -> None:
        self._parts = OfFeatures(GradientBoosting(seed)), OfDecisions(seed)

    def learn(self, programs: Sequence[Program]) -> None:
        for part in self._parts:
            part.learn(programs)

    def score(self, programs: Sequence[Program]) -> Scores:
        return sum((part.score(programs) for part in self._parts), np.zeros(len(programs)))


class Incremental:
    """Gradient boosting that keeps its trees and adds new ones in rounds of 16 programs.

    Every round adds the number of trees of ``GradientBoosting``; with fewer it ranks worse.
    """

    _SETTINGS = {"num_leaves": 6, "learning_rate": 0.08, "feature_fraction": 0.3}

    def __init__(self, seed: int) -> None:
        self._settings = self._SETTINGS | {"seed": seed, "extra_trees": True}
        self._forests: list[Any] = []

    def learn(self, programs: Sequence[Program]) -> None:
        for end in range(ROUND, len(programs) + 1, ROUND):
            self._add_trees([program.example for program in programs[:end]])

    def _add_trees(self, examples: Sequence[Example]) -> None:
        target = throughputs(examples)
        weight = np.maximum(target, LEAST_WEIGHT)
        counts = np.array([len(example.features) for example in examples])
        program = np.repeat(np.arange(len(examples)), counts)
        missing = target - self._scores(examples)

        def derivatives(scores: Any) -> tuple[Any, Any]:
            error = np.bincount(program, scores, len(target)) - missing
            return (2 * weight * error)[program], (2 * weight * counts)[program]

        rows = np.concatenate([example.features for example in examples])
        self._forests.append(train_booster(rows, ROUNDS, self._settings, derivatives))

    def _scores(self, examples: Sequence[Example]) -> Scores:
        counts = [len(example.features) for example in examples]
        rows = np.concatenate([example.features for example in examples])
        scores = sum((f.predict(rows, num_threads=1) for f in self._forests), np.zeros(len(rows)))
        return np.bincount(np.repeat(np.arange(len(counts)), counts), scores, len(counts))

    def score(self, programs: Sequence[Program]) -> Scores:
        return self._scores([program.example for program in programs])


def rankers() -> dict[str, Callable[[int], Ranker]]:
    """Return the compared models by name."""
    made: dict[str, Callable[[int], Ranker]] = {
        "afresh": lambda seed: OfFeatures(GradientBoosting(seed)),
        "incremental": Incremental,
        "decisions": OfDecisions,
        "both": Both,
        "random": lambda seed: OfFeatures(RandomModel(seed)),
    }
    if _xgb_model.available():
        made["XGBModel"] = lambda seed: OfFeatures(_xgb_model.TvmModel(seed))
    return made


def load(name: str, cores: int | None, data: Path | None) -> tuple[list[Program], float]:
    """A workload's programs, and milliseconds a program for features on one thread."""
    workload = sl.workloads.get(name)
    measured = measured_programs(workload, PROGRAMS, cores, data)
    raws = [one.trace.replay(workload).raw for one in measured]
    start = time.perf_counter()
    tables = statement_features(raws)
    spent = (time.perf_counter() - start) / len(raws) * 1e3
    programs = [
        Program(Example(table, one.latency, workload.key), site_values(one.trace))
        for table, one in zip(tables, measured, strict=True)
        if table is not None
    ]
    if len(programs) < PROGRAMS:
        raise SystemExit(f"{name}: {len(programs)} programs are too few, {PROGRAMS} are needed")
    return programs, spent


def compare(programs: Sequence[Program], orders: int) -> dict[str, dict[str, Any]]:
    """By model: accuracy and recall by number of examples; milliseconds of training and scoring."""
    rows: dict[str, dict[str, Any]] = {}
    for name, make in rankers().items():
        found: dict[str, dict[int, list[float]]] = {
            key: {n: [] for n in TRAINED_ON} for key in ("accuracy", "recall")
        }
        train: list[float] = []
        score: list[float] = []
        for order in range(orders):
            shuffled = [
                programs[i] for i in np.random.RandomState(order).permutation(len(programs))
            ]
            unseen = shuffled[-UNSEEN:]
            latencies = [program.example.latency for program in unseen]
            for count in TRAINED_ON:
                ranker = make(order)
                times = [time.perf_counter()]
                ranker.learn(shuffled[:count])
                times.append(time.perf_counter())
                scores = ranker.score(unseen)
                times.append(time.perf_counter())
                found["accuracy"][count].append(pairwise_accuracy(scores, latencies) or 0.0)
                found["recall"][count].append(recall_at(BEST, scores, latencies) or 0.0)
            train.append((times[1] - times[0]) * 1e3)
            score.append((times[2] - times[1]) * 1e3)
        rows[name] = {
            key: {str(n): statistics.fmean(values) for n, values in by_count.items()}
            for key, by_count in found.items()
        }
        rows[name] |= {"train ms": statistics.median(train), "score ms": statistics.median(score)}
    return rows


def print_table(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Pairs in order and recall after each number of examples, then times."""
    counts = "".join(f"{n:>8}" for n in TRAINED_ON)
    print(f"{'':12}  pairs in order{'':10}  {BEST} best of {UNSEEN}{'':11}  train  score (ms)")
    print(f"{'trained on':12}{counts}{counts}{TRAINED_ON[-1]:>9}{UNSEEN:>7}")
    for name, row in rows.items():
        figures = [row[key][str(n)] for key in ("accuracy", "recall") for n in TRAINED_ON]
        shown = "".join(f"{figure:8.3f}" for figure in figures)
        print(f"{name:12}{shown}{row['train ms']:9.1f}{row['score ms']:7.1f}")


def mean(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of rows of numbers, or of rows of rows."""
    return {
        key: mean([row[key] for row in rows])
        if isinstance(rows[0][key], Mapping)
        else statistics.fmean(row[key] for row in rows)
        for key in rows[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", metavar="NAME", default=WORKLOADS)
    parser.add_argument("--orders", type=int, default=8, help="random orders of the programs")
    parser.add_argument("--cores", type=int, help="cores to run on; all by default")
    parser.add_argument("--data", type=Path, help="store measurements in this file, and reuse them")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="one workload in one order")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.workloads, arguments.orders = arguments.workloads[:1], 1
    by_workload: dict[str, dict[str, Any]] = {}
    features: dict[str, float] = {}
    for name in arguments.workloads:
        programs, features[name] = load(name, arguments.cores, arguments.data)
        by_workload[name] = compare(programs, arguments.orders)
        print(f"{name}: features {features[name]:.1f} ms a program")
        print_table(by_workload[name])
        print(flush=True)
    print(f"mean of {', '.join(by_workload)}")
    means = mean(list(by_workload.values()))
    print_table(means)
    if arguments.json:
        summary = {
            "mean": means,
            "workloads": by_workload,
            "features ms a program": features,
            "programs": PROGRAMS,
            "orders": arguments.orders,
            "cores": arguments.cores,
        }
        store(summary, arguments.json)


if __name__ == "__main__":
    main()
