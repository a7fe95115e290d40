"""Cost models: what all of them promise, and what gradient boosting learns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from schedlang.search.cost_model import (
    CostModelError,
    Example,
    RandomModel,
    best_latencies,
    throughputs,
)
from schedlang.search.gradient_boosting import GradientBoosting
from schedlang.search.surrogate import pairwise_accuracy
from schedlang.testing.cost_models import (
    EXAMPLES,
    CostModelContract,
    MakeModel,
    features_of,
    made_up_examples,
)
from schedlang.tvm.analysis.work import COLUMNS

MODELS = {"gradient boosting": GradientBoosting, "random": RandomModel}


class TestGradientBoosting(CostModelContract):
    @pytest.fixture
    def make_model(self) -> MakeModel:
        return GradientBoosting


class TestRandomModel(CostModelContract):
    @pytest.fixture
    def make_model(self) -> MakeModel:
        return RandomModel


@pytest.mark.parametrize("make", MODELS.values(), ids=list(MODELS))
def test_a_stored_model_is_of_one_kind(make: MakeModel) -> None:
    model = make(0)
    for other in MODELS.values():
        if other(0).name != model.name:
            with pytest.raises(CostModelError, match=model.name):
                model.load(other(0).save())


# -- throughput ------------------------------------------------------------------------------------


def test_throughput_is_over_the_best_of_the_workload() -> None:
    rows = np.zeros((1, COLUMNS), np.float32)
    latencies = [("a", 2.0), ("b", 5.0), ("a", 1.0), ("a", None), ("c", None)]
    examples = [Example(rows, latency, key) for key, latency in latencies]
    assert best_latencies(examples) == {"a": 1.0, "b": 5.0}
    assert throughputs(examples).tolist() == [0.5, 1.0, 1.0, 0.0, 0.0]


# -- gradient boosting -----------------------------------------------------------------------------


def test_it_learns_what_makes_programs_fast() -> None:
    """Every seed from 0 to 19 gave 0.66 or more; random scores give 0.5."""
    model = GradientBoosting(seed=0)
    unseen = [example for example in made_up_examples(64, 1) if example.latency is not None]
    model.update(made_up_examples(EXAMPLES, 0))
    accuracy = pairwise_accuracy(
        model.predict(features_of(unseen)), [example.latency for example in unseen]
    )
    assert accuracy is not None and accuracy > 0.62


def test_scores_are_about_throughputs() -> None:
    examples = made_up_examples(EXAMPLES, 0)
    model = GradientBoosting()
    model.update(examples)
    error = model.predict(features_of(examples)) - throughputs(examples)
    assert np.abs(error).mean() < 0.05


def test_the_score_is_the_sum_over_the_statements() -> None:
    model = GradientBoosting()
    model.update(made_up_examples(EXAMPLES, 0))
    table = made_up_examples(8, 1)[5].features
    nothing = np.empty((0, COLUMNS), np.float32)
    whole, none, *parts = model.predict([table, nothing, *(row[None] for row in table)])
    assert len(parts) > 1
    assert whole - none == pytest.approx(sum(part - none for part in parts))


def test_each_workload_has_its_own_scale() -> None:
    """With the times of half the programs a thousand times longer it learns the same trees."""
    examples, tables = made_up_examples(EXAMPLES, 0), features_of(made_up_examples(20, 1))
    slow = [
        Example(e.features, None if e.latency is None else 1000 * e.latency, "two")
        for e in made_up_examples(EXAMPLES, 2)
    ]
    found = []
    for others in (slow, made_up_examples(EXAMPLES, 2, "two")):
        model = GradientBoosting()
        model.update([*examples, *others])
        found.append(model.predict(tables))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_other_workloads_are_not_in_the_way_of_the_present_one() -> None:
    """What makes programs of the other one slow makes those of the present one fast."""
    present, unseen, others = (
        made_up_examples(48, 0),
        made_up_examples(48, 1),
        made_up_examples(400, 2, "other"),
    )
    for example in others:
        example.features[:, 3] = 11 - example.features[:, 3]
    working = [example for example in unseen if example.latency is not None]

    def accuracy(*updates: list[Example]) -> float:
        model = GradientBoosting()
        for examples in updates:
            model.update(examples)
        times = [example.latency for example in working]
        return pairwise_accuracy(model.predict(features_of(working)), times) or 0.0

    alone = accuracy(present)
    assert accuracy(others, present) > alone - 0.05
    assert accuracy(others + present) < alone - 0.1


def test_latencies_in_doubt_count_less() -> None:
    """The second time, each program seems to take up to eight times as long."""
    right, rng = made_up_examples(EXAMPLES, 0), np.random.default_rng(0)
    wrong = [replace(one, latency=one.latency and one.latency * rng.uniform(1, 8)) for one in right]

    def error(weight: float) -> float:
        model = GradientBoosting()
        model.update([*right, *(replace(one, weight=weight) for one in wrong)])
        found = np.abs(model.predict(features_of(right)) - throughputs(right))
        return float(found.mean())

    assert error(0.05) < 0.7 * error(1.0)


def test_a_model_that_knows_no_weights_is_read() -> None:
    model, again = GradientBoosting(), GradientBoosting()
    model.update(made_up_examples(EXAMPLES, 0))
    stored = json.loads(model.save())
    del stored["weights"]
    again.load(json.dumps(stored))
    more = made_up_examples(8, 1)
    for one in (model, again):
        one.update(more)
    assert (model.predict(features_of(more)) == again.predict(features_of(more))).all()


def test_failures_are_slow() -> None:
    """Failing programs have a first column of their own."""
    examples = made_up_examples(EXAMPLES, 0)
    for example in examples:
        example.features[:, 0] = 100 if example.latency is None else 1
    model = GradientBoosting()
    model.update(examples)
    scores = model.predict(features_of(examples))
    failed = np.array([example.latency is None for example in examples])
    assert scores[failed].mean() < 0.5 * scores[~failed].mean()


def test_nothing_is_learned_until_a_program_works() -> None:
    failed = [Example(e.features, None, "one") for e in made_up_examples(8, 0)]
    model = GradientBoosting()
    model.update(failed)
    assert not model.trained and not model.predict(features_of(failed)).any()
    model.update(made_up_examples(1, 1))
    assert model.trained and np.isfinite(model.predict(features_of(failed))).all()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_very_few_examples_are_enough_to_train(count: int) -> None:
    examples = made_up_examples(count, 0)
    model = GradientBoosting()
    model.update(examples)
    assert np.isfinite(model.predict(features_of(examples))).all()


def test_a_broken_stored_model_is_refused() -> None:
    """LightGBM itself ends the process at such texts."""
    model = GradientBoosting()
    model.update(made_up_examples(EXAMPLES, 0))
    stored = json.loads(model.save())
    tables = features_of(made_up_examples(4, 1))
    expected = model.predict(tables).tolist()
    changes = {
        "trees": [stored["trees"][:-200], stored["trees"].replace("num_leaves=6", "num_leaves=9")],
        "features": ["", "AAAA", "no base 64 at all", stored["features"][:400], 7],
        "statements": [stored["statements"][:-1], [-1, 1], "x", None],
        "latencies": [stored["latencies"][:-1], ["fast"] * EXAMPLES],
        "weights": [stored["weights"][:-1], ["much"] * EXAMPLES, None],
        "start": [None, "x"],
    }
    for key, values in changes.items():
        for value in values:
            with pytest.raises(CostModelError):
                model.load(json.dumps(stored | {key: value}))
    with pytest.raises(CostModelError, match="lacks trees"):
        model.load(json.dumps({key: stored[key] for key in stored if key != "trees"}))
    assert model.predict(tables).tolist() == expected
