"""A frozen file: the winners, for all processes the same, or an error that names the program."""

from __future__ import annotations

import dataclasses
import errno
import sqlite3
from pathlib import Path

import pytest
from tvm import te

import schedlang as sl
from schedlang.database import Database, FinalsEntry
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
        return sl.freeze(database, path.with_name("best.db")).path


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
    monkeypatch.setattr("schedlang.tuning.kernels.rungs.toolchain_key", lambda: "another one")
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
        sl.freeze(database, tmp_path / "best.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
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


def change(made: Path, statement: str) -> None:
    """Change a frozen file, as nobody should."""
    made.chmod(0o644)
    connection = sqlite3.connect(made)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_winner_that_makes_another_program_is_refused(tuned: Path) -> None:
    made = frozen(tuned)
    change(made, "UPDATE record SET program_key = '0123456789abcdef'")
    with pytest.raises(DatabaseError, match="makes another program here"):
        sl.best(MATMUL, database=made)


def test_what_lies_beside_it_does_not_change_it(tuned: Path) -> None:
    made = frozen(tuned)
    for ending in ("-wal", "-journal"):
        left = made.with_name(f"best.db{ending}")
        left.write_bytes(b"of a file that was there before")
        with pytest.raises(DatabaseError, match="remove that"):
            sl.best(MATMUL, database=made)
        with pytest.raises(DatabaseError, match="remove it"):
            sl.freeze(tuned, _stale(left))
        left.unlink()
    assert sl.best(MATMUL, database=made) is not None


def _stale(left: Path) -> Path:
    """Return a path beside which a file with the ending of ``left`` lies."""
    path = left.with_name("new.db")
    path.with_name(left.name.replace("best.db", "new.db")).write_bytes(b"old")
    return path


def test_a_winner_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path, turned = tmp_path / "tune.db", sl.workloads.matmul(32, 32, 32)
    sl.tune(turned, measurer=Replayed(), trials=12, database=path, progress=False, finals=0)
    made = frozen(path)
    change(made, "UPDATE record SET trace_json = '[]'")
    with pytest.raises(DatabaseError, match="no program for"):
        sl.best(turned, database=made)


def turned_matmul() -> sl.Workload:
    """The same product as ``MATMUL``, with its factors in the other order."""
    a, b = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((32, 32), lambda i, j: te.sum(b[k, j] * a[i, k], axis=k), name="C")
    return sl.workloads.from_te([a, b, c], "turned")


@pytest.mark.parametrize("reference", [1.0, 1e-9])
def test_equal_programs_have_one_winner(tmp_path: Path, reference: float) -> None:
    """Also where it is the unscheduled program, whose key is another one."""
    turned, path = turned_matmul(), tmp_path / "tune.db"
    assert turned.key != MATMUL.key and turned.exact_key == MATMUL.exact_key
    measurer = Replayed()
    measurer.reference_latency = reference
    sl.tune(MATMUL, measurer=measurer, trials=12, database=path, progress=False, finals=0)
    made = frozen(path)
    own, other = sl.best(MATMUL, database=made), sl.best(turned, database=made)
    assert own is not None and other is not None
    assert own.record == other.record
    assert own.unscheduled == other.unscheduled == (reference < 1e-6)


def test_places_that_cannot_be(tuned: Path, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="cannot be written"):
        sl.freeze(tuned, tmp_path / "no folder" / "best.db")
    with pytest.raises(DatabaseError, match="URI"):
        sl.freeze(tuned, "file:best.db")
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(DatabaseError, match="it exists"):
        sl.freeze(tuned, link)
    assert not list(tmp_path.glob(".frozen-*"))


def test_without_hard_links(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert sl.best(MATMUL, database=frozen(tuned)) is not None


def test_a_program_that_nobody_tuned_has_no_winner(tuned: Path, tmp_path: Path) -> None:
    with Database(tuned) as database:
        for record in database.query():
            if not record.unscheduled:
                database.delete([record.id or 0])
        with pytest.raises(DatabaseError, match="no program was tuned"):
            sl.freeze(database, tmp_path / "best.db")


def test_metaschedule_does_not_view_it(tuned: Path) -> None:
    from schedlang.metaschedule import as_tvm_database

    with pytest.raises(DatabaseError, match="use schedlang.apply"):
        as_tvm_database(frozen(tuned))
