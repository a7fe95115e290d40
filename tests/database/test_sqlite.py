"""The SQLite file: durable, shared, and clear about what is wrong with it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlang.database import Database, MemoryDatabase, SQLiteDatabase, open_database
from schedlang.database.sqlite_file import SCHEMA
from schedlang.errors import DatabaseError
from schedlang.testing.database import make_record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tune.db"


def test_open_database_takes_what_users_give(path: Path) -> None:
    assert isinstance(open_database(None), MemoryDatabase)
    with open_database(str(path)) as database:
        assert isinstance(database, SQLiteDatabase)
        assert open_database(database) is database
    with pytest.raises(TypeError, match="a database is a path, a Database or None, not a int"):
        open_database(3)  # type: ignore[arg-type]


WRITER = """
import sys
from schedlang.database import SQLiteDatabase
from schedlang.testing.database import make_record
database = SQLiteDatabase(sys.argv[1])
while True:
    database.append([make_record(trace_json="x" * 5000)] * 3)
    print("stored", flush=True)
"""


def test_what_append_returned_from_survives_a_killed_process(path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=env
    )
    assert writer.stdout is not None
    for _ in range(5):
        assert writer.stdout.readline() == "stored\n"
    writer.send_signal(signal.SIGKILL)
    batches = 5 + len(writer.stdout.readlines())
    writer.stdout.close()
    writer.wait()
    with SQLiteDatabase(path) as database:
        stored = database.count()
    assert stored % 3 == 0, "a batch was stored in part"
    assert stored >= 3 * batches


def test_the_file_is_written_through_to_the_disk(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        assert database._connection is not None
        pragmas = [
            database._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "user_version")
        ]
    assert pragmas == ["wal", 2, SCHEMA]


def test_readers_follow_a_writer_and_never_write(path: Path) -> None:
    with SQLiteDatabase(path) as writer, SQLiteDatabase(path, read_only=True) as reader:
        assert reader.count() == 0
        writer.append([make_record()])
        assert reader.query() == writer.query()
        with pytest.raises(DatabaseError, match="opened with read_only=True; open it without"):
            reader.append([make_record()])
    before = path.read_bytes()
    with SQLiteDatabase(path, read_only=True) as reader:
        assert reader.count() == 1
    assert path.read_bytes() == before


def test_threads_share_one_database(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        threads = [
            threading.Thread(target=lambda: [database.append([make_record()]) for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(record.id or 0 for record in database.query()) == list(range(1, 81))


def test_best_uses_the_index(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        assert database._connection is not None
        plan = database._connection.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM record WHERE workload_key = 'w' AND "
            "target_key = 't' AND latency IS NOT NULL ORDER BY latency, id LIMIT 1"
        ).fetchall()
    assert "record_by_latency" in str(plan)
    assert "TEMP B-TREE" not in str(plan)


def damage(path: Path) -> None:
    """Overwrite the inside of a file of some pages."""
    with SQLiteDatabase(path) as database:
        database.append([make_record(trace_json="x" * 3000)] * 50)
    content = bytearray(path.read_bytes())
    content[4096:20480] = b"\xa5" * (20480 - 4096)
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        database.append([make_record(trace_json="x" * 3000)] * 50)
    path.write_bytes(path.read_bytes()[: 3 * 4096])


def make_foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()


def set_pragma(path: Path, pragma: str) -> None:
    SQLiteDatabase(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {pragma}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_text("not a database\n" * 100), r"tune.db: it is not an SQLite"),
        (damage, r"tune.db: it is damaged \(.*\); copy what is readable with `sqlite3 FILE"),
        (cut_short, r"tune.db: it is damaged"),
        (make_foreign, r"tune.db: it is another program's SQLite file; choose another path"),
        (
            lambda path: set_pragma(path, "application_id=7"),
            r"tune.db: it is another program's SQLite file",
        ),
        (
            lambda path: set_pragma(path, f"user_version={SCHEMA + 1}"),
            rf"tune.db: it was written by a newer schedlang \(schema {SCHEMA + 1}, this one knows",
        ),
        (lambda path: path.mkdir(), r"tune.db: it is a folder; give the path of a file in it"),
    ],
    ids=["text", "damaged", "cut", "foreign", "foreign id", "newer", "folder"],
)
def test_what_is_wrong_with_a_file(
    path: Path, prepare: Callable[[Path], object], message: str
) -> None:
    prepare(path)
    content = path.read_bytes() if path.is_file() else b""
    with pytest.raises(DatabaseError, match=message):
        SQLiteDatabase(path)
    if path.is_file():
        assert path.read_bytes() == content, "a file that is refused is left as it is"


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    with SQLiteDatabase(path) as database:
        assert database.count() == 0


def test_a_missing_folder_and_a_missing_file(path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"the folder .*nowhere does not exist; make it first"):
        SQLiteDatabase(path.parent / "nowhere" / "tune.db")
    with pytest.raises(DatabaseError, match=r"there is no such file to read; open it without"):
        SQLiteDatabase(path, read_only=True)
    assert not path.exists()


def test_an_old_schema_is_not_migrated_by_a_reader(path: Path) -> None:
    set_pragma(path, "user_version=0")
    with pytest.raises(DatabaseError, match=r"it has schema 0 and 1 is needed; open it once"):
        SQLiteDatabase(path, read_only=True)


def test_a_locked_file_is_named_after_the_wait(path: Path) -> None:
    with SQLiteDatabase(path, busy_seconds=0.05) as database:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match=r"tune.db: it is locked by another process"):
            database.append([make_record()])
        other.execute("ROLLBACK")
        other.close()
        assert [record.id for record in database.append([make_record()])] == [1]


def test_a_failing_batch_leaves_the_file_usable(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        broken = make_record(workload_name="\udcff")
        with pytest.raises(UnicodeEncodeError):
            database.append([make_record(), broken])
        assert database.count() == 0
        assert len(database.append([make_record()])) == 1


def test_a_record_that_cannot_be_read_is_an_error_of_the_database(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        database.append([make_record()])
        assert database._connection is not None
        database._connection.execute("UPDATE record SET status = 'from the future'")
        with pytest.raises(DatabaseError, match=r"a record that this schedlang cannot read"):
            database.query()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write in every folder")
def test_a_folder_that_cannot_be_written(path: Path) -> None:
    with SQLiteDatabase(path) as database:
        database.append([make_record()])
    path.parent.chmod(0o555)
    try:
        with pytest.raises(DatabaseError, match=r"it cannot be (opened|written)"):
            SQLiteDatabase(path.with_name("new.db"))
        with SQLiteDatabase(path, read_only=True) as reader:
            assert reader.count() == 1
    finally:
        path.parent.chmod(0o755)


def test_nothing_in_the_package_can_run_what_it_loads() -> None:
    folder = Path(sys.modules[Database.__module__].__file__ or "").parent
    text = "\n".join(file.read_text() for file in folder.glob("*.py"))
    for word in ("pickle", "eval(", "exec(", "marshal", "load_extension"):
        assert word not in text
