"""A file that comes without the ``-wal`` file from beside it is told apart, and says so."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlang.database import (
    Database,
    IncompleteDatabaseWarning,
    file as sqlite_file,
    merge,
    open_database,
)
from schedlang.database.file import this_process
from schedlang.errors import DatabaseError
from tests.database.plausible import make_record, make_run

TOLD = (
    "copy.db: its newest records may be missing, because copy.db-wal, which holds what was written "
    "last, is not beside it; the file was copied while it was in use or after a process was killed"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tune.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "copy.db"


def take(path: Path, copy: Path, *, journal: bool = False) -> None:
    """Copy a file as a user does, with or without what lies beside it."""
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    shutil.copy(path, copy)
    if journal:
        shutil.copy(f"{path}-wal", f"{copy}-wal")


def count_silently(path: Path, *, read_only: bool = False) -> int:
    """Open a file and count its records; a warning fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", IncompleteDatabaseWarning)
        with open_database(path, read_only=read_only) as database:
            return database.count()


@pytest.fixture
def running(path: Path) -> Iterator[Database]:
    """A file in which a run is in progress, and has five records."""
    with Database(path) as database:
        run = database.add_run(make_run(owner=this_process()))
        for _ in range(5):
            database.append([make_record(run_id=run.id)])
        yield database


def test_a_copy_of_a_file_in_use_is_told(running: Database, path: Path, copy: Path) -> None:
    take(path, copy)
    for read_only in (True, True, False):
        with pytest.warns(IncompleteDatabaseWarning, match=TOLD):
            with open_database(copy, read_only=read_only) as database:
                assert database.count() == 0
    for read_only in (True, False):
        assert count_silently(path, read_only=read_only) == 5
    take(path, copy, journal=True)
    assert count_silently(copy) == 5


def append_of_another_run(database: Database) -> None:
    """As ``append(other.query())`` does: the run is not in progress here."""
    database.append([make_record(run_id=7)])


def merge_one(database: Database) -> None:
    with Database() as other:
        other.append([make_record(created=5.0)])
        merge(other, database)


def replace_in_one_go(database: Database) -> None:
    with database.transaction():
        database.delete([1])
        database.append([make_record(), make_record()])


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda database: database.append([make_record()]), 2),
        (append_of_another_run, 2),
        (merge_one, 2),
        (replace_in_one_go, 2),
        (lambda database: database.delete([1]), 0),
        (lambda database: database.put_workload("k", "GMM", "{}"), 1),
        (lambda database: database.delete_run(1), 1),
    ],
    ids=["append", "of another run", "merge", "transaction", "delete", "program", "run"],
)
def test_a_copy_of_an_idle_file_has_what_was_stored_outside_of_runs(
    path: Path, copy: Path, change: Callable[[Database], object], count: int
) -> None:
    with Database(path) as database:
        database.append([make_record()])
        database.add_run(make_run())
        change(database)
        take(path, copy)
        assert count_silently(copy, read_only=True) == count
        with open_database(copy) as copied:
            for one in (database, copied):
                assert len(one.workloads()) == len(database.workloads())
                assert one.runs() == database.runs()


def test_records_of_a_run_in_progress_wait_in_the_journal(path: Path, copy: Path) -> None:
    """Each would cost another wait for the disk; a copy without the journal says what it is."""
    with Database(path) as database:
        run = database.add_run(make_run(owner=this_process()))
        database.append([make_record(run_id=run.id)])
        take(path, copy)
        with pytest.warns(IncompleteDatabaseWarning), open_database(copy) as copied:
            assert copied.count() == 0


def test_where_no_run_is_in_progress_the_file_alone_has_everything(
    running: Database, path: Path, copy: Path
) -> None:
    [run] = running.runs()
    assert running.claim_run(run.id or 0, run.owner, "")
    take(path, copy)
    assert count_silently(copy, read_only=True) == 5


KILLED = """
import os, signal, sys
from schedlang.database import Database
from schedlang.database.file import this_process
from tests.database.plausible import make_record, make_run
database = Database(sys.argv[1])
run = database.add_run(make_run(owner=this_process()))
database.append([make_record(run_id=run.id)] * 5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_told(path: Path, copy: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert killed.returncode == -signal.SIGKILL
    take(path, copy)
    with pytest.warns(IncompleteDatabaseWarning, match=TOLD), open_database(copy) as database:
        assert database.count() == 0
    assert count_silently(copy) == 0, "it was told, and is a database of its own from then on"
    take(path, copy, journal=True)
    assert count_silently(copy) == 5
    assert count_silently(copy) == 5, "the last to close it wrote all into the file"
    assert not Path(f"{copy}-wal").exists()


@pytest.mark.parametrize("stays", [True, False], ids=["it stays", "it comes again"])
def test_a_file_that_another_process_has_just_opened_is_complete(
    path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """Between the look for a journal and the look into the file; and perhaps again, when it has
    closed it in between."""
    Database(path).close()
    look = sqlite_file.signs_of_writing
    others: list[Database] = []

    def late(connection: Any) -> frozenset[str]:
        if not others or not stays:
            with monkeypatch.context() as patch:
                patch.setattr(sqlite_file, "signs_of_writing", lambda connection: frozenset())
                others.append(Database(path))
            others[-1].add_run(make_run(owner=this_process()))
        found = look(connection)
        assert found
        if not stays:
            [*_, run] = others[-1].runs()
            assert others[-1].claim_run(run.id or 0, run.owner, "")
            others[-1].close()
        return found

    monkeypatch.setattr(sqlite_file, "signs_of_writing", late)
    assert count_silently(path) == 0
    assert len(others) == (1 if stays else 2)
    for other in others:
        other.close()


def test_a_file_whose_tables_are_in_the_journal(path: Path, copy: Path) -> None:
    """What a copy holds that was taken while an earlier schedlang made the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE record (id)")
    take(path, copy)
    for _ in range(2):
        with pytest.raises(DatabaseError, match="it has no tables; .*: copy copy.db-wal too"):
            open_database(copy, read_only=True)
    take(path, copy)
    with pytest.warns(IncompleteDatabaseWarning, match=TOLD), open_database(copy) as database:
        assert database.append([make_record()])
    connection.close()
    assert count_silently(copy) == 1


def test_files_of_users_who_did_nothing_wrong(path: Path) -> None:
    assert count_silently(path) == 0
    assert count_silently(path, read_only=True) == 0
    path.unlink()
    path.touch()
    assert count_silently(path) == 0
