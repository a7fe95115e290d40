"""Runs that an earlier version interrupted go on as that version would have gone on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from schedlang.database import open_database
from tests.database.old_runs import RUNS, TRIALS, Hashed, call

ASSETS = Path(__file__).parent / "assets" / "runs"
CONTINUED: dict[str, dict[str, Any]] = json.loads((ASSETS / "continued.json").read_text())


def old_run(name: str, folder: Path) -> Path:
    """Unpack the database of a run."""
    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((ASSETS / f"{name}.db.gz").read_bytes()))
    return path


def runs_of(path: Path) -> int:
    with open_database(path) as database:
        return len(database.runs())


# Descents compare programs by their features since: other proposals.
CHANGED = ("auto_inside", "explore_exploit_inside")
# Descents draw starts by the target's estimate since: another rest.
OTHER_REST = ("network_inside", "network_between")


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in RUNS if one not in CHANGED + OTHER_REST])
def test_an_old_run_proposes_what_its_own_version_proposed(name: str, tmp_path: Path) -> None:
    path = old_run(name, tmp_path)
    before = runs_of(path)
    measurer = Hashed()
    assert call(name, str(path), first=False, measurer=measurer) == CONTINUED[name]["records"]
    assert measurer.measured == CONTINUED[name]["measured"]
    assert runs_of(path) == before  # it is the same run, by its identity and by its search


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_REST)
def test_an_old_run_goes_on_where_the_rest_is_proposed_otherwise(name: str, tmp_path: Path) -> None:
    path = old_run(name, tmp_path)
    before = runs_of(path)
    with open_database(path) as database:
        measured = {record.program_key for record in database.query()}
    measurer = Hashed()
    found = call(name, str(path), first=False, measurer=measurer)
    # The default schedule of one task is another one since, as tiles may overlap.
    proposed = [key for number, key, _ in found if number is not None]
    assert len(set(proposed)) == len(proposed) == TRIALS == len(found) - 1
    assert measurer.measured == CONTINUED[name]["measured"] + 1
    assert runs_of(path) == before
    with open_database(path) as database:
        keys = [record.program_key for record in database.query()]
    assert len(set(keys)) == len(keys), "a program was measured twice"
    assert measured < set(keys)
    kept = {key for _, key, _ in CONTINUED[name]["records"]} & measured
    assert kept <= {key for _, key, _ in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGED)
def test_an_old_run_of_a_search_that_changed_begins_again(name: str, tmp_path: Path) -> None:
    path = old_run(name, tmp_path)
    before = runs_of(path)
    measurer = Hashed()
    found = call(name, str(path), first=False, measurer=measurer)
    assert len({key for _, key, _ in found}) == len(found) == TRIALS
    assert 0 < measurer.measured < TRIALS
    assert runs_of(path) == before + 1
    with open_database(path) as database:
        keys = [record.program_key for record in database.query()]
    assert len(set(keys)) == len(keys), "a program was measured twice"


def test_there_is_an_old_run_with_a_saved_state_of_each_kind(tmp_path: Path) -> None:
    for name in RUNS:
        with open_database(old_run(name, tmp_path)) as database:
            assert any('"told":' in run.state.replace("\\", "") for run in database.runs()), name
