"""The contract suite of cost models itself: each broken model fails the test that is about it."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from schedlang.search import CostModelError, Example, RandomModel
from schedlang.search.cost_model import Scores
from schedlang.testing.cost_models import EXAMPLES, CostModelContract
from schedlang.tvm.analysis.work import Features


class NoName(RandomModel):
    name = ""


class OneScoreForAll(RandomModel):
    def predict(self, features: Sequence[Features]) -> Scores:
        return super().predict(features[:1])


class NotANumber(RandomModel):
    def predict(self, features: Sequence[Features]) -> Scores:
        return super().predict(features) * (np.nan if self.trained else 1)


class NeverTrained(RandomModel):
    def update(self, examples: Sequence[Example]) -> None:
        pass


class TrainedByNothing(RandomModel):
    def update(self, examples: Sequence[Example]) -> None:
        self._trained = True


class WantsLatencies(RandomModel):
    def update(self, examples: Sequence[Example]) -> None:
        super().update(examples)
        if examples:
            min(example.latency for example in examples if example.latency is not None)


class OneWorkload(RandomModel):
    def update(self, examples: Sequence[Example]) -> None:
        super().update(examples)
        if examples:
            (_,) = {example.workload_key for example in examples}


class Unseeded(RandomModel):
    def __init__(self, seed: int) -> None:
        super().__init__(random.SystemRandom().getrandbits(32))


class GloballySeeded(RandomModel):
    def __init__(self, seed: int) -> None:
        super().__init__(random.getrandbits(32))


class ChangesExamples(RandomModel):
    def update(self, examples: Sequence[Example]) -> None:
        super().update(examples)
        for example in examples:
            example.features[:] = 0


class IgnoresSeed(RandomModel):
    def __init__(self, seed: int) -> None:
        super().__init__(0)


class SavesNoGenerator(RandomModel):
    def load(self, text: str) -> None:
        rng = self._rng.getstate()
        super().load(text)
        self._rng.setstate(rng)


class ForgetsThatItIsTrained(RandomModel):
    def load(self, text: str) -> None:
        super().load(text)
        self._trained = False


class Pickles(RandomModel):
    def save(self) -> str:
        return json.dumps({"model": self.name, "pickled": pickle.dumps(self._rng).hex()})

    def load(self, text: str) -> None:
        self._rng = pickle.loads(bytes.fromhex(json.loads(text)["pickled"]))


class LoadsAnything(RandomModel):
    def load(self, text: str) -> None:
        with suppress(CostModelError):
            super().load(text)


class RaisesAnything(RandomModel):
    def load(self, text: str) -> None:
        self._trained = bool(json.loads(text)["trained"])


BROKEN: list[tuple[type[RandomModel], str, tuple[Any, ...]]] = [
    (NoName, "test_it_has_a_name", ()),
    (OneScoreForAll, "test_it_gives_one_finite_score_a_program", ()),
    (NotANumber, "test_it_gives_one_finite_score_a_program", ()),
    (NeverTrained, "test_it_is_trained_by_examples", ()),
    (TrainedByNothing, "test_it_is_trained_by_examples", ()),
    (WantsLatencies, "test_failures_alone_do_not_stop_it", ()),
    (OneWorkload, "test_it_learns_from_several_workloads", ()),
    (Unseeded, "test_the_same_updates_give_the_same_scores", ()),
    (GloballySeeded, "test_the_same_updates_give_the_same_scores", ()),
    (GloballySeeded, "test_the_global_generators_are_left_alone", ()),
    (ChangesExamples, "test_the_same_updates_give_the_same_scores", ()),
    (IgnoresSeed, "test_another_seed_gives_another_model", ()),
    (SavesNoGenerator, "test_saved_and_loaded_it_goes_on_the_same", (EXAMPLES,)),
    (ForgetsThatItIsTrained, "test_saved_and_loaded_it_goes_on_the_same", (EXAMPLES,)),
    (LoadsAnything, "test_what_is_no_stored_model_is_refused", ()),
    (RaisesAnything, "test_what_is_no_stored_model_is_refused", ()),
]

FAULTS = (AssertionError, ValueError, KeyError, pytest.fail.Exception)


def passes(test: str, made: type[RandomModel], *given: Any) -> bool:
    """Return whether a model passes a test of the suite."""
    try:
        getattr(CostModelContract(), test)(made, *given)
    except FAULTS:
        return False
    return True


@pytest.mark.parametrize(
    ("broken", "test", "given"), BROKEN, ids=[f"{cls.__name__}-{test}" for cls, test, _ in BROKEN]
)
def test_a_broken_model_fails(broken: type[RandomModel], test: str, given: tuple[Any, ...]) -> None:
    assert not passes(test, broken, *given)


def test_a_model_that_pickles_fails() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(pytest.fail.Exception):
        CostModelContract().test_nothing_is_pickled(Pickles, monkeypatch)


@pytest.mark.parametrize(("broken", "test", "given"), BROKEN)
def test_what_they_are_made_of_passes(
    broken: type[RandomModel], test: str, given: tuple[Any, ...]
) -> None:
    assert passes(test, RandomModel, *given)
