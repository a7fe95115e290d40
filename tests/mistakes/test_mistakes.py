"""Mistakes of newcomers: each has a clear answer, and none is silent."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path

import pytest

from tests.mistakes.mistake import Mistake
from tests.mistakes.of_commands import COMMANDS
from tests.mistakes.of_results import FILES, RESULTS
from tests.mistakes.of_runs import EXTENSIONS, TUNE
from tests.mistakes.of_spaces import PRIMITIVES, SPACES

ROWS = [
    pytest.param(mistake, id=f"{group}: {mistake.name}")
    for group, table in (
        ("space", SPACES),
        ("primitive", PRIMITIVES),
        ("tune", TUNE),
        ("extension", EXTENSIONS),
        ("file", FILES),
        ("command", COMMANDS),
        ("result", RESULTS),
    )
    for mistake in table
]
OURS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mistake", ROWS)
def test_a_mistake_is_answered(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if issubclass(mistake.kind, Warning):
        with pytest.warns(mistake.kind) as caught:
            mistake.make()
        assert any(mistake.said in str(one.message) for one in caught)
        return
    with warnings.catch_warnings(), pytest.raises(mistake.kind) as info:
        warnings.simplefilter("ignore")
        mistake.make()
    assert mistake.said in str(info.value)
    # Errors of Python's own classes are raised by us, and not by what we did with the mistake.
    last = traceback.extract_tb(info.tb)[-1]
    assert OURS in Path(last.filename).resolve().parents and str(last.line).startswith("raise")


def test_there_are_many() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) >= 180
