"""Cost models: what all of them promise, and what gradient boosting learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from schedlang.search.evolutionary.ranking import pairwise_accuracy
from schedlang.search.models.cost_model import (
    CostModel,
    CostModelError,
    Example,
    Features,
    RandomModel,
    best_latencies,
    throughputs,
)
from schedlang.search.models.gradient_boosting import GradientBoosting
from schedlang.tvm.analysis.statement_features import COLUMNS

MakeModel = Callable[[int], CostModel]
MODELS = {"gradient boosting": GradientBoosting, "random": RandomModel}
TAUGHT = 96


def made_up(count: int, seed: int, workload: str = "one") -> list[Example]:
    """Programs of 1 to 4 statements whose time is the sum of what their rows say; some fail."""
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        rows = rng.integers(0, 12, (rng.integers(1, 5), COLUMNS)).astype(np.float32)
        time = float(np.sum(1 + rows[:, 3] + 2 * (rows[:, 20] > 6)))
        examples.append(Example(rows, None if number % 16 == 7 else time * 1e-6, workload))
    return examples


def features_of(examples: list[Example]) -> list[Features]:
    return [example.features for example in examples]


@pytest.fixture(params=MODELS.values(), ids=list(MODELS))
def make(request: pytest.FixtureRequest) -> MakeModel:
    model: MakeModel = request.param
    return model


# -- every model -----------------------------------------------------------------------------------


def test_one_finite_score_a_program(make: MakeModel) -> None:
    model = make(0)
    tables = [*features_of(made_up(5, 1)), np.empty((0, COLUMNS), np.float32)]
    assert model.name and not model.trained
    assert model.predict(tables).shape == (6,)
    model.update([])
    assert not model.trained
    model.update(made_up(TAUGHT, 0))
    assert model.trained
    scores = model.predict(tables)
    assert scores.shape == (6,) and np.isfinite(scores).all()
    assert model.predict([]).shape == (0,)


def test_the_same_updates_give_the_same_scores(make: MakeModel) -> None:
    tables = features_of(made_up(20, 1))
    examples = made_up(TAUGHT, 0)
    before = [example.features.copy() for example in examples]
    found = []
    for _ in range(2):
        model = make(3)
        model.update(examples[:40])
        model.update(examples[40:])
        found.append(model.predict(tables).tolist())
    assert found[0] == found[1]
    for example, features in zip(examples, before, strict=True):
        np.testing.assert_array_equal(example.features, features)


def test_another_seed_gives_another_model(make: MakeModel) -> None:
    one, other = make(0), make(1)
    for model in (one, other):
        model.update(made_up(TAUGHT, 0))
    tables = features_of(made_up(20, 1))
    assert one.predict(tables).tolist() != other.predict(tables).tolist()


@pytest.mark.parametrize("taught", [0, TAUGHT], ids=["fresh", "trained"])
def test_saved_and_loaded_it_goes_on_the_same(make: MakeModel, taught: int) -> None:
    examples, tables = made_up(TAUGHT + 20, 0), features_of(made_up(20, 1))
    model, other = make(5), make(5)
    model.update(examples[:taught])
    saved = model.save()
    json.loads(saved)
    other.load(saved)
    assert other.save() == saved
    assert other.trained == model.trained
    for _ in range(2):
        assert other.predict(tables).tolist() == model.predict(tables).tolist()
        for one in (model, other):
            one.update(examples[TAUGHT:])


@pytest.mark.parametrize(
    "text", ["", "null", "{}", '{"model": "gradient_boosting"}', '{"model": "random"}']
)
def test_what_is_no_stored_model_is_refused(make: MakeModel, text: str) -> None:
    with pytest.raises(CostModelError):
        make(0).load(text)


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
    unseen = [example for example in made_up(64, 1) if example.latency is not None]
    model.update(made_up(TAUGHT, 0))
    accuracy = pairwise_accuracy(
        model.predict(features_of(unseen)), [example.latency for example in unseen]
    )
    assert accuracy is not None and accuracy > 0.62


def test_scores_are_about_throughputs() -> None:
    examples = made_up(TAUGHT, 0)
    model = GradientBoosting()
    model.update(examples)
    error = model.predict(features_of(examples)) - throughputs(examples)
    assert np.abs(error).mean() < 0.05


def test_the_score_is_the_sum_over_the_statements() -> None:
    model = GradientBoosting()
    model.update(made_up(TAUGHT, 0))
    table = made_up(8, 1)[5].features
    nothing = np.empty((0, COLUMNS), np.float32)
    whole, none, *parts = model.predict([table, nothing, *(row[None] for row in table)])
    assert len(parts) > 1
    assert whole - none == pytest.approx(sum(part - none for part in parts))


def test_each_workload_has_its_own_scale() -> None:
    """With the times of half the programs a thousand times longer it learns the same trees."""
    examples, tables = made_up(TAUGHT, 0), features_of(made_up(20, 1))
    slow = [
        Example(e.features, None if e.latency is None else 1000 * e.latency, "two")
        for e in made_up(TAUGHT, 2)
    ]
    found = []
    for others in (slow, made_up(TAUGHT, 2, "two")):
        model = GradientBoosting()
        model.update([*examples, *others])
        found.append(model.predict(tables))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_other_workloads_are_not_in_the_way_of_the_present_one() -> None:
    """What makes programs of the other one slow makes those of the present one fast."""
    present, unseen, others = made_up(48, 0), made_up(48, 1), made_up(400, 2, "other")
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


def test_failures_are_slow() -> None:
    """Failing programs have a first column of their own."""
    examples = made_up(TAUGHT, 0)
    for example in examples:
        example.features[:, 0] = 100 if example.latency is None else 1
    model = GradientBoosting()
    model.update(examples)
    scores = model.predict(features_of(examples))
    failed = np.array([example.latency is None for example in examples])
    assert scores[failed].mean() < 0.5 * scores[~failed].mean()


def test_nothing_is_learned_until_a_program_works() -> None:
    failed = [Example(e.features, None, "one") for e in made_up(8, 0)]
    model = GradientBoosting()
    model.update(failed)
    assert not model.trained and not model.predict(features_of(failed)).any()
    model.update(made_up(1, 1))
    assert model.trained and np.isfinite(model.predict(features_of(failed))).all()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_very_few_examples_are_enough_to_train(count: int) -> None:
    examples = made_up(count, 0)
    model = GradientBoosting()
    model.update(examples)
    assert np.isfinite(model.predict(features_of(examples))).all()


def test_a_broken_stored_model_is_refused() -> None:
    """LightGBM itself ends the process at such texts."""
    model = GradientBoosting()
    model.update(made_up(TAUGHT, 0))
    stored = json.loads(model.save())
    tables = features_of(made_up(4, 1))
    expected = model.predict(tables).tolist()
    changes = {
        "trees": [stored["trees"][:-200], stored["trees"].replace("num_leaves=6", "num_leaves=9")],
        "features": ["", "AAAA", "no base 64 at all", stored["features"][:400], 7],
        "statements": [stored["statements"][:-1], [-1, 1], "x", None],
        "latencies": [stored["latencies"][:-1], ["fast"] * TAUGHT],
        "start": [None, "x"],
    }
    for key, values in changes.items():
        for value in values:
            with pytest.raises(CostModelError):
                model.load(json.dumps(stored | {key: value}))
    with pytest.raises(CostModelError, match="lacks trees"):
        model.load(json.dumps({key: stored[key] for key in stored if key != "trees"}))
    assert model.predict(tables).tolist() == expected


_PROGRAM = """
import zlib
from test_cost_model import TAUGHT, features_of, made_up
from schedlang.search.models.gradient_boosting import GradientBoosting
model = GradientBoosting(seed=3)
model.update(made_up(TAUGHT, 0))
print(zlib.crc32(model.predict(features_of(made_up(20, 1))).tobytes()))
"""


def test_a_fresh_process_learns_the_same() -> None:
    """Also where LightGBM would take more threads."""
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    model = GradientBoosting(seed=3)
    model.update(made_up(TAUGHT, 0))
    scores = model.predict(features_of(made_up(20, 1)))
    assert int(done.stdout) == zlib.crc32(scores.tobytes())
