"""Files of versions whose hosts searched a program beside each other, each in a run of its own."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database import Database
from tests.tuning.hosts.replaying import tune

ASSET = Path(__file__).parent / "assets" / "islands.db.gz"
TARGET = sl.Target.from_key("cpu/znver3/cores=2/vector=256")
BEST = 1.0757723047297276e-05


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with three runs that searched one program: 36 trials of all, 12 of the first."""
    found = tmp_path / "islands.db"
    found.write_bytes(gzip.decompress(ASSET.read_bytes()))
    return found


def test_the_fastest_of_all_is_found(path: Path) -> None:
    with Database(path) as database:
        assert len(database.runs()) == 3
        [key] = {run.workload_key for run in database.runs()}
        assert len([one for one in database.query(key) if not one.unscheduled]) == 36


def test_the_first_goes_on_and_keeps_what_the_others_found(path: Path) -> None:
    call = {"search": "evolutionary", "batch": 4, "transfer": False, "target": TARGET}
    found = tune(None, trials=44, database=path, **call)
    with Database(path) as database:
        assert len(database.runs()) == 3, "it went on"
    assert found.earlier > 0
    assert found.best.latency <= BEST
    assert found.best.record.program_key == found.best.trace.replay().program_key
