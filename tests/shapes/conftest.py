"""A set of shapes, tuned once."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from tests.shapes.products import SHAPES, tuned


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database."""
    return tmp_path_factory.mktemp("shapes") / "tune.db"


@pytest.fixture(scope="session")
def found(file: Path) -> sl.ShapeSet:
    """A range, and two shapes beside it."""
    return tuned(file, SHAPES)
