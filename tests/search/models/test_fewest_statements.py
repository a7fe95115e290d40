"""The cost model of docs/searches.md keeps the contract."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from schedlang.search import Example
from schedlang.testing.cost_models import CostModelContract


class FewestStatements:
    name = "fewest_statements"
    trained = True

    def update(self, examples: list[Example]) -> None:
        """Nothing to learn."""

    def predict(self, features):
        return np.array([1.0 / (1 + len(rows)) for rows in features])

    def save(self) -> str:
        return ""

    def load(self, text: str) -> None:
        """Nothing was learned."""


class TestFewestStatements(CostModelContract):
    learns = False
    seeded = False

    @pytest.fixture
    def make_model(self):
        return lambda seed: FewestStatements()


def test_it_is_the_model_that_the_page_shows() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "searches.md"
    assert inspect.getsource(FewestStatements) in page.read_text(encoding="utf-8")
