"""Files of recorded spaces; a test file gives the fixture ``recorded``."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlang.lab import RecordedSpace


@pytest.fixture(scope="module")
def content(recorded: RecordedSpace, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("recorded") / "one.space"
    recorded.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("read") / "some.space"
