"""The contract of a cost model: subclass, give the fixture, and yours is checked like ours.

class TestMine(CostModelContract):
    @pytest.fixture
    def make_model(self):
        return MyModel  # called as make_model(seed)

Nothing is compiled or run: features and latencies are made up.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from schedlang.search import CostModel, CostModelError, Example
from schedlang.testing.strategy import check_in_fresh_process
from schedlang.tvm.analysis.work import COLUMNS, Features

MakeModel = Callable[[int], CostModel]

EXAMPLES = 96
"""How many examples the suite trains with; some of them failed."""


def made_up_examples(count: int, seed: int, workload_key: str = "one") -> list[Example]:
    """Make programs of 1 to 4 statements whose latency is a sum over their rows; one in 16 failed.

    The latency depends on columns 3 and 20 of the 164, and is in microseconds of seconds.
    """
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        rows = rng.integers(0, 12, (rng.integers(1, 5), COLUMNS)).astype(np.float32)
        time = float(np.sum(1 + rows[:, 3] + 2 * (rows[:, 20] > 6)))
        examples.append(Example(rows, None if number % 16 == 7 else time * 1e-6, workload_key))
    return examples


def features_of(examples: Sequence[Example]) -> list[Features]:
    """Return the features of each example."""
    return [example.features for example in examples]


class CostModelContract:
    """What every cost model promises, on programs that it has never seen."""

    seeded: ClassVar[bool] = True
    """Whether another seed gives another model; ``False`` for a model that draws nothing."""
    learns: ClassVar[bool] = True
    """Whether it learns from examples; ``False`` for a formula, which is trained from the start and
    has nothing to save."""

    @pytest.fixture
    def make_model(self) -> MakeModel:
        """Make a fresh model of a seed."""
        pytest.fail(f"{type(self).__name__} must define the fixture `make_model`")

    # -- predicting ------------------------------------------------------------------------------

    def test_it_has_a_name(self, make_model: MakeModel) -> None:
        name = make_model(0).name
        assert isinstance(name, str) and name

    def test_it_gives_one_finite_score_a_program(self, make_model: MakeModel) -> None:
        """Before and after training, also for a program without statements and for no program."""
        model = make_model(0)
        tables = [*features_of(made_up_examples(5, 1)), np.empty((0, COLUMNS), np.float32)]
        for taught in (0, EXAMPLES):
            model.update(made_up_examples(taught, 0))
            for given in (tables, tables[:1], []):
                scores = np.asarray(model.predict(given))
                assert scores.shape == (len(given),)
                assert np.issubdtype(scores.dtype, np.floating) and np.isfinite(scores).all()

    def test_it_is_trained_by_examples(self, make_model: MakeModel) -> None:
        model = make_model(0)
        assert model.trained is not self.learns
        model.update([])
        assert model.trained is not self.learns
        model.update(made_up_examples(EXAMPLES, 0))
        assert model.trained is True

    def test_failures_alone_do_not_stop_it(self, make_model: MakeModel) -> None:
        """A search may begin with programs that all fail."""
        model = make_model(0)
        failed = [Example(one.features, None, "one") for one in made_up_examples(8, 0)]
        model.update(failed)
        assert np.isfinite(model.predict(features_of(failed))).all()
        model.update(made_up_examples(EXAMPLES, 0))
        assert np.isfinite(model.predict(features_of(failed))).all()

    def test_it_learns_from_several_workloads(self, make_model: MakeModel) -> None:
        model = make_model(0)
        examples = made_up_examples(20, 0) + made_up_examples(20, 1, "another")
        model.update(examples)
        assert np.isfinite(model.predict(features_of(examples))).all()

    # -- the same again --------------------------------------------------------------------------

    def test_the_same_updates_give_the_same_scores(self, make_model: MakeModel) -> None:
        """And the examples stay as they were."""
        tables = features_of(made_up_examples(20, 1))
        examples = made_up_examples(EXAMPLES, 0)
        before = [example.features.copy() for example in examples]
        found: list[Any] = []
        for _ in range(2):
            random.seed(len(found))
            model = make_model(3)
            model.update(examples[:40])
            model.update(examples[40:])
            found.append(np.asarray(model.predict(tables)).tolist())
        assert found[0] == found[1]
        for example, features in zip(examples, before, strict=True):
            np.testing.assert_array_equal(example.features, features)

    def test_another_seed_gives_another_model(self, make_model: MakeModel) -> None:
        if not self.seeded:
            pytest.skip("it draws nothing")
        tables = features_of(made_up_examples(20, 1))
        scores = []
        for seed in (0, 1):
            model = make_model(seed)
            model.update(made_up_examples(EXAMPLES, 0))
            scores.append(np.asarray(model.predict(tables)).tolist())
        assert scores[0] != scores[1]

    def test_a_fresh_process_learns_the_same(
        self, make_model: MakeModel, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        """Also where libraries would take another number of threads."""
        model = make_model(3)
        model.update(made_up_examples(EXAMPLES, 0))
        scores = np.asarray(model.predict(features_of(made_up_examples(20, 1)))).tolist()
        check_in_fresh_process(scores, request, tmp_path, {"OMP_NUM_THREADS": "2"})

    def test_the_global_generators_are_left_alone(self, make_model: MakeModel) -> None:
        def states() -> tuple[Any, str]:
            numpy_state = json.dumps(np.random.get_state(), default=np.ndarray.tolist)
            return random.getstate(), numpy_state

        before = states()
        model = make_model(0)
        model.update(made_up_examples(EXAMPLES, 0))
        model.predict(features_of(made_up_examples(4, 1)))
        model.load(model.save())
        assert states() == before

    # -- saving and loading ----------------------------------------------------------------------

    @pytest.mark.parametrize("taught", [0, EXAMPLES], ids=["fresh", "trained"])
    def test_saved_and_loaded_it_goes_on_the_same(self, make_model: MakeModel, taught: int) -> None:
        examples = made_up_examples(EXAMPLES + 20, 0)
        tables = features_of(made_up_examples(20, 1))
        model, other = make_model(5), make_model(5)
        model.update(examples[:taught])
        model.predict(tables)  # a model that draws has its generator elsewhere now
        saved = model.save()
        assert isinstance(saved, str)
        other.load(saved)
        assert other.save() == saved
        assert other.trained == model.trained
        for _ in range(2):
            ours, theirs = (np.asarray(one.predict(tables)).tolist() for one in (model, other))
            assert theirs == ours
            for one in (model, other):
                one.update(examples[EXAMPLES:])

    def test_nothing_is_pickled(
        self, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A stored model must not be able to run code."""
        model = make_model(0)
        model.update(made_up_examples(EXAMPLES, 0))

        def refuse(*_: Any, **__: Any) -> None:
            pytest.fail("a cost model is saved as text, never pickled")

        for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
            monkeypatch.setattr(pickle, name, refuse)
        make_model(0).load(model.save())

    def test_what_is_no_stored_model_is_refused(self, make_model: MakeModel) -> None:
        """Other text, another model's text, and its own text when it was cut off."""
        if not self.learns:
            pytest.skip("it has nothing to load")
        model = make_model(0)
        model.update(made_up_examples(EXAMPLES, 0))
        saved = model.save()
        tables = features_of(made_up_examples(4, 1))
        others = ["", "null", "{}", "[]", f'{{"model": "not {model.name}"}}']
        for text in [*others, saved[: len(saved) // 2], saved[:-1]]:
            fresh = make_model(0)
            with pytest.raises(CostModelError):
                fresh.load(text)
            assert not fresh.trained
        for text in others:
            with pytest.raises(CostModelError):
                model.load(text)
        assert model.save() == saved
        assert np.isfinite(model.predict(tables)).all()
