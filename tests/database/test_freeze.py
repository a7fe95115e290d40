"""A frozen file: the winners, for all processes the same, or an error that names the program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database import Database, FinalsEntry, freeze
from schedlang.errors import DatabaseError
from schedlang.measurement import Status
from tests.crash.tuner import Replayed

MATMUL = sl.workloads.matmul(32, 32, 32)
OTHER = sl.workloads.matmul(32, 32, 64)


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    path = tmp_path / "tune.db"
    sl.tune(MATMUL, measurer=Replayed(), trials=12, database=path, progress=False, finals=3)
    return path


def frozen(path: Path) -> Path:
    with Database(path, read_only=True) as database:
        return freeze(database, path.with_name("best.db")).path


def test_it_has_the_winner_and_no_other(tuned: Path) -> None:
    best = sl.best(MATMUL, database=tuned)
    made = frozen(tuned)
    found = sl.best(MATMUL, database=made)
    assert best is not None and found is not None
    assert found.latency == best.latency
    assert found.schedule.trace == best.schedule.trace
    with Database(made, read_only=True) as database:
        assert database.frozen and database.count() == 1 and database.runs() == []
    assert not made.with_name("best.db-wal").exists()


def test_what_it_lacks_fails_by_name(tuned: Path) -> None:
    made = frozen(tuned)
    with pytest.raises(DatabaseError, match=r"no program for .*matmul.*freeze again"):
        sl.best(OTHER, database=made)
    with pytest.raises(DatabaseError, match="no program for"):
        sl.apply(OTHER, made)
    with pytest.raises(DatabaseError, match="no program for"):
        sl.best(MATMUL, "x86/avx2", made)


def test_another_toolchain_fails_by_name(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = frozen(tuned)
    monkeypatch.setattr("schedlang.tuning.lookup.look_up.toolchain_key", lambda: "another one")
    with pytest.raises(DatabaseError, match="with another one: its winner is of"):
        sl.best(MATMUL, database=made)


def test_it_takes_no_more_records(tuned: Path) -> None:
    made = frozen(tuned)
    with pytest.raises(DatabaseError, match="it is frozen"):
        Database(made)
    with pytest.raises(DatabaseError, match="it is frozen"):
        sl.tune(MATMUL, measurer=Replayed(), trials=2, database=made, progress=False)
    with pytest.raises(DatabaseError, match="a frozen file is final"):
        frozen(tuned)


def test_the_winner_of_finals_is_frozen(tuned: Path) -> None:
    with Database(tuned) as database:
        slow = max((one for one in database.query() if one.ok), key=lambda one: one.latency)
        assert slow.id is not None
        database.append([dataclasses.replace(slow, id=None, status=Status.RUN_ERROR, samples=())])
        fast = min((one for one in database.query() if one.ok), key=lambda one: one.latency)
        assert fast.id is not None
        held = [(slow.id, 1e-9), (fast.id, 2e-9)]
        database.add_finals(
            FinalsEntry(number, 4e9, place, Status.OK, (seconds,))
            for place, (number, seconds) in enumerate(held)
        )
    best = sl.best(MATMUL, database=tuned)
    found = sl.best(MATMUL, database=frozen(tuned))
    assert best is not None and found is not None
    assert found.latency == best.latency == 1e-9


def test_nothing_to_freeze(tmp_path: Path) -> None:
    with Database() as database, pytest.raises(DatabaseError, match="nothing to freeze"):
        freeze(database, tmp_path / "best.db")
    assert list(tmp_path.iterdir()) == []


def test_a_network_is_compiled_from_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = sl.import_network(torch.nn.Linear(16, 8), torch.randn(4, 16))
    path = tmp_path / "net.db"
    sl.tune_network(network, trials=8, database=path, progress=False, finals=2)
    made = frozen(path)
    compiled = sl.compile_network(network, made, progress=False)
    assert compiled.verify().passed
    other = sl.import_network(torch.nn.Linear(24, 8), torch.randn(4, 24))
    with pytest.raises(DatabaseError, match="no program for"):
        sl.compile_network(other, made, progress=False)
