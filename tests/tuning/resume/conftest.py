"""Fixtures of the tests of resuming."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schedlang.database import Database


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as made:
        yield made
