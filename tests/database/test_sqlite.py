"""The SQLite file: durable, shared, and clear about what is wrong with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedlang.database import (
    Database,
    RunDetails,
    file as sqlite_file,
    open_database,
    opened_database,
)
from schedlang.database.file import this_process
from schedlang.database.place import SCHEMA
from schedlang.errors import DatabaseError
from schedlang.measurement import Status
from tests.database.plausible import (
    make_details,
    make_entry,
    make_record,
    make_run,
    noise,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tune.db"


def test_open_database_takes_what_users_give(path: Path) -> None:
    assert open_database(None).path is None
    with open_database(str(path)) as database:
        assert database.path == path
        assert open_database(database) is database
    with pytest.raises(TypeError, match="a database is a path, a Database or None, not a int"):
        open_database(3)  # type: ignore[arg-type]


def test_what_was_opened_for_a_call_is_closed_and_what_was_given_is_not(path: Path) -> None:
    with Database(path) as given, opened_database(given) as same:
        assert same is given
        with opened_database(path, read_only=True) as reader:
            assert reader.read_only and reader.count() == 0
        with pytest.raises(DatabaseError, match="it is closed; open it again"):
            reader.count()
        assert given.count() == 0
    with pytest.raises(RuntimeError), opened_database(None) as memory:
        raise RuntimeError
    with pytest.raises(DatabaseError, match="the in-memory database: it is closed; open a new one"):
        memory.count()


class Slow:
    """A connection on which something else happens after one of the first questions."""

    def __init__(self, connection: sqlite3.Connection, meanwhile: Callable[[], None]) -> None:
        self.connection = connection
        self._meanwhile = meanwhile

    def execute(self, sql: str) -> Any:
        cursor = self.connection.execute(sql)
        if "application_id" not in sql:
            return cursor
        row = cursor.fetchone()
        self._meanwhile()
        return SimpleNamespace(fetchone=lambda: row)


def test_a_file_that_another_process_is_making_is_not_taken_for_another_programs(
    path: Path,
) -> None:
    """The other one makes it between the questions whose file it is and what is in it."""
    other = threading.Thread(target=lambda: Database(path, busy_seconds=30).close())

    def meanwhile() -> None:
        other.start()
        other.join(0.3)

    connection = sqlite3.connect(path, isolation_level=None)
    sqlite_file._check_owner(Slow(connection, meanwhile), path)  # type: ignore[arg-type]
    connection.close()
    other.join()
    with Database(path) as database:
        assert database.count() == 0 and database.workloads() == []


WRITER = """
import sys
from schedlang.database import Database
from tests.database.plausible import make_record, noise
database = Database(sys.argv[1])
while True:
    database.append([make_record(trace_json=noise(5000))] * 3)
    print("stored", flush=True)
"""


def test_what_append_returned_from_survives_a_killed_process(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(5):
        assert writer.stdout.readline() == "stored\n"
    writer.send_signal(signal.SIGKILL)
    batches = 5 + len(writer.stdout.readlines())
    writer.stdout.close()
    writer.wait()
    with Database(path) as database:
        stored = database.count()
    assert stored % 3 == 0, "a batch was stored in part"
    assert stored >= 3 * batches


def test_the_file_is_written_through_to_the_disk(path: Path) -> None:
    with Database(path) as database:
        pragmas = [
            database._connection.rows(f"PRAGMA {name}")[0][0]
            for name in ("journal_mode", "synchronous", "user_version")
        ]
    assert pragmas == ["wal", 2, SCHEMA]


def test_readers_follow_a_writer_and_never_write(path: Path) -> None:
    with Database(path) as writer, Database(path, read_only=True) as reader:
        assert reader.count() == 0
        writer.append([make_record()])
        assert reader.query() == writer.query()
        with pytest.raises(DatabaseError, match="opened with read_only=True; open it without"):
            reader.append([make_record()])
    before = path.read_bytes()
    with Database(path, read_only=True) as reader:
        assert reader.count() == 1
    assert path.read_bytes() == before


def test_threads_share_one_database(path: Path) -> None:
    with Database(path) as database:
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
    with Database(path) as database:
        plan = database._connection.rows(
            "EXPLAIN QUERY PLAN SELECT * FROM record WHERE workload_key = 'w' AND "
            "target_key = 't' AND latency IS NOT NULL ORDER BY latency, id LIMIT 1"
        )
    assert "record_by_latency" in str(plan)
    assert "TEMP B-TREE" not in str(plan)


def damage(path: Path) -> None:
    """Overwrite the inside of a file of some pages."""
    with Database(path) as database:
        database.append([make_record(trace_json=noise(3000))] * 50)
    content = bytearray(path.read_bytes())
    content[4096:20480] = b"\xa5" * (20480 - 4096)
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    with Database(path) as database:
        database.append([make_record(trace_json=noise(3000))] * 50)
    path.write_bytes(path.read_bytes()[: 3 * 4096])


def make_foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()


def set_pragma(path: Path, pragma: str) -> None:
    Database(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {pragma}")
    connection.commit()
    connection.close()


def add_to_schema(path: Path, statement: str) -> None:
    Database(path).close()
    connection = sqlite3.connect(path)
    connection.execute(statement)
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
        (
            lambda path: set_pragma(path, "user_version=-1"),
            r"tune.db: its version is damaged, so it is no database of schedlang",
        ),
        (
            lambda path: add_to_schema(path, "CREATE VIEW endless AS SELECT 1"),
            r"tune.db: it has views or triggers of its own",
        ),
        (
            lambda path: add_to_schema(
                path, "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END"
            ),
            r"tune.db: it has views or triggers of its own",
        ),
        (lambda path: path.mkdir(), r"tune.db: it is a folder; give the path of a file in it"),
    ],
    ids=[
        "text",
        "damaged",
        "cut",
        "foreign",
        "foreign id",
        "newer",
        "negative",
        "view",
        "trigger",
        "folder",
    ],
)
def test_what_is_wrong_with_a_file(
    path: Path, prepare: Callable[[Path], object], message: str
) -> None:
    prepare(path)
    content = path.read_bytes() if path.is_file() else b""
    with pytest.raises(DatabaseError, match=message):
        Database(path)
    if path.is_file():
        assert path.read_bytes() == content, "a file that is refused is left as it is"


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    with Database(path) as database:
        assert database.count() == 0


def test_a_missing_folder_and_a_missing_file(path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"the folder .*nowhere does not exist; make it first"):
        Database(path.parent / "nowhere" / "tune.db")
    with pytest.raises(DatabaseError, match=r"there is no such file to read; open it without"):
        Database(path, read_only=True)
    assert not path.exists()


def test_an_old_schema_is_not_migrated_by_a_reader(path: Path) -> None:
    set_pragma(path, "user_version=0")
    with pytest.raises(
        DatabaseError, match=rf"it has schema 0 and {SCHEMA} is needed; open it once"
    ):
        Database(path, read_only=True)


OLD = Path(__file__).with_name("assets") / "schema_1.db"


def test_a_file_of_schema_1_keeps_everything(path: Path) -> None:
    shutil.copy(OLD, path)
    with pytest.raises(DatabaseError, match=r"it has schema 1 and \d is needed; open it once"):
        Database(path, read_only=True)
    assert path.read_bytes() == OLD.read_bytes()
    for _ in range(2):
        with Database(path) as database:
            ok, wide, failed = database.query()
            assert ok == make_record(id=1, seed=1, created=1700000001.0)
            assert wide == make_record(id=2, seed=2**70, created=1.7e9 + 2.0**70)
            assert failed == make_record(
                id=3, status=Status.CRASHED, stderr="died", seed=0, message="it failed"
            )
            for record in (ok, wide, failed):
                assert (record.program_key, record.provenance) == ("", {})
                assert (record.run_id, record.proposal) == (None, None)
            assert database.best("w", "t", n=9) == [ok, wide]
            assert database.workloads(exact_key="") == [("w", "GMM")]
            assert (database.get_workload("w"), database.structural_keys("w")) == (
                "{}",
                ("", "", ""),
            )
            assert database.runs() == []
    with Database(path) as database:
        (new,) = database.append([make_record(provenance={"tvm": "0.27"})])
        assert new.id == 4
        assert database.query(after=3) == [new]


# How to take back each schema.
_BACK = {
    7: ["ALTER TABLE record DROP COLUMN disturbance"],
    6: [
        *("DROP TABLE rejection", "DROP TABLE phase", "DROP TABLE trial"),
        *("ALTER TABLE run DROP COLUMN notes", "ALTER TABLE run DROP COLUMN tags"),
    ],
    5: ["DROP INDEX workload_by_kin_key", "ALTER TABLE workload DROP COLUMN kin_key"],
    4: ["DROP TABLE claim"],
    3: ["DROP TABLE final"],
}


def go_back(database: Database, schema: int) -> None:
    """Make a file what an older version of the library would have written."""
    for newer in range(SCHEMA, schema, -1):
        for statement in _BACK[newer]:
            database._connection.execute(statement)
    database._connection.execute(f"PRAGMA user_version={schema}")


def test_a_file_of_schema_4_is_read_as_it_is(path: Path) -> None:
    with Database(path) as database:
        database.put_workload("k", "GMM", "{}", "e", "f", "i")
        go_back(database, 4)
    before = path.read_bytes()
    with Database(path, read_only=True) as reader:
        assert reader.structural_keys("k") == ("e", "f", "")
        assert reader.workloads(kin_key="i") == []
        assert reader.workloads("e", kin_key="") == [("k", "GMM")]
        assert path.read_bytes() == before
        with Database(path) as writer:
            writer.put_workload("k", "GMM", "{}", "e", "f", "i")
        assert reader.workloads(kin_key="i") == [("k", "GMM")]


def test_a_file_of_schema_2_is_read_as_it_is(path: Path) -> None:
    """A look-up opens a file for reading, and older ones have records too."""
    with Database(path) as database:
        (record,) = database.append([make_record()])
        go_back(database, 2)
    before = path.read_bytes()
    with Database(path, read_only=True) as reader:
        assert reader.query() == [record]
        assert reader.finals() == []
        assert path.read_bytes() == before
        with Database(path) as writer:
            writer.add_finals([make_entry(record)])
        assert reader.finals() == [make_entry(record)]


def test_a_file_of_schema_3_is_read_as_it_is(path: Path) -> None:
    with Database(path) as database:
        run = database.add_run(make_run(owner=this_process()))
        (record,) = database.append([make_record(run_id=run.id)])
        database.add_finals([make_entry(record)])
        database.claim_run(run.id or 0, run.owner, "")
        go_back(database, 3)
    before = path.read_bytes()
    with Database(path, read_only=True) as reader:
        assert reader.query() == [record]
        assert reader.finals() == [make_entry(record)]
        assert path.read_bytes() == before
        with Database(path) as writer:
            assert writer.claim_programs(run.id or 0, ["a"]) == frozenset()
        assert reader.query() == [record]


def test_a_file_of_schema_5_is_read_as_it_is(path: Path) -> None:
    with Database(path) as database:
        run = database.add_run(make_run())
        assert run.id is not None
        (record,) = database.append([make_record(run_id=run.id)])
        go_back(database, 5)
    before = path.read_bytes()
    with Database(path, read_only=True) as reader:
        assert (reader.runs(), reader.query()) == ([run], [record])
        assert reader.find_run("i") == run
        assert reader.details(run.id) == RunDetails()
        assert path.read_bytes() == before
        with Database(path) as writer:
            writer.add_details(run.id, make_details(record.id or 0))
            writer.set_notes(run.id, "late", ["noted"])
        assert reader.details(run.id) == make_details(record.id or 0)
        assert [(one.notes, one.tags) for one in reader.runs()] == [("late", ("noted",))]


def test_two_processes_may_migrate_one_file(path: Path) -> None:
    shutil.copy(OLD, path)
    code = "import sys; from schedlang.database import *; print(open_database(sys.argv[1]).count())"
    both = [start(code, path) for _ in range(2)]
    assert [process.communicate(timeout=120)[0] for process in both] == ["3\n", "3\n"]


APPENDER = """
import sys
from schedlang.database import Database
from tests.database.plausible import make_record, noise
with Database(sys.argv[1]) as database:
    for number in range(25):
        record = make_record(message=sys.argv[2], proposal=number, provenance={"by": sys.argv[2]})
        database.append([record] * 2)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run Python code in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_append_to_one_file_at_once(path: Path) -> None:
    writers = [start(APPENDER, path, name) for name in "abc"]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    with Database(path) as database:
        stored = database.query()
    assert [record.id for record in stored] == list(range(1, 151))
    for name in "abc":
        own = [record for record in stored if record.message == name]
        assert [record.proposal for record in own] == [n for n in range(25) for _ in range(2)]
        assert all(record.provenance == {"by": name} for record in own)


FILLER = """
import resource, signal, sys
from schedlang.database import Database
from schedlang.errors import DatabaseError
from tests.database.plausible import make_record, noise
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
database = Database(sys.argv[1])
batches = 0
try:
    while True:
        database.append([make_record(trace_json=noise(5000))] * 3)
        batches += 1
except DatabaseError as error:
    print(batches, error)
"""


def test_a_disk_that_takes_no_more_loses_nothing(path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    batches, _, message = start(FILLER, path).communicate(timeout=120)[0].partition(" ")
    assert "tune.db: " in message
    assert re.search(r"the disk is full|reading or writing failed .*; check the disk", message)
    with Database(path) as database:
        assert 0 < int(batches) * 3 == database.count()
        database.append([make_record()])


def test_a_full_database_says_so_and_stays_usable(path: Path) -> None:
    with Database(path) as database:
        (first,) = database.append([make_record()])
        (pages,) = database._connection.rows("PRAGMA page_count")[0]
        database._connection.rows(f"PRAGMA max_page_count={pages}")
        big = make_record(trace_json=noise(10_000))
        with pytest.raises(DatabaseError, match=r"tune.db: the disk is full \(.*\); free some"):
            database.append([make_record(), big])
        assert database.query() == [first]
        with pytest.raises(DatabaseError, match="the disk is full"), database.transaction():
            database.put_workload("k", "small", "{}")
            database.append([big])
        assert database.workloads() == []
        with pytest.raises(DatabaseError, match=r"an error before ended|the disk is full"):
            with database.transaction():
                with pytest.raises(DatabaseError, match="the disk is full"):
                    database.append([big])
                database.append([big])
        database._connection.rows("PRAGMA max_page_count=1000000")
        assert len(database.append([make_record(), big])) == 2
        assert database.count() == 3


def test_a_pruned_file_gets_smaller_and_stays_sound(path: Path) -> None:
    with Database(path) as database, Database(path, read_only=True) as reader:
        database.append(
            make_record(trace_json=noise(5000), provenance={"n": str(n)}) for n in range(200)
        )
        database.put_workload("w", "GMM", "{}")
        assert database.delete(range(1, 200)) == 199
        (last,) = reader.query()
        database.compact()
        assert database.query() == reader.query() == [last]
        assert database._connection.rows("SELECT text FROM provenance") == [('{"n": "199"}',)]
    assert path.stat().st_size < 120_000
    with Database(path) as database:
        (new,) = database.append([make_record()])
        assert new.id == 201
        assert database.workloads() == [("w", "GMM")]


def test_a_locked_file_is_named_after_the_wait(path: Path) -> None:
    with Database(path, busy_seconds=0.05) as database:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match=r"tune.db: it is locked by another process"):
            database.append([make_record()])
        other.execute("ROLLBACK")
        other.close()
        assert [record.id for record in database.append([make_record()])] == [1]


def test_a_failing_batch_leaves_the_file_usable(path: Path) -> None:
    with Database(path) as database:
        broken = make_record(workload_name="\udcff")
        with pytest.raises(DatabaseError, match="no valid Unicode"):
            database.append([make_record(), broken])
        assert database.count() == 0
        assert len(database.append([make_record()])) == 1


def test_a_record_that_cannot_be_read_is_an_error_of_the_database(path: Path) -> None:
    with Database(path) as database:
        database.append([make_record()])
        database._connection.execute("UPDATE record SET status = 'from the future'")
        with pytest.raises(DatabaseError, match=r"record 1 cannot be read .*upgrade"):
            database.query()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("record SET samples = x'00'", "column 'samples': expected text, got a blob"),
        ("record SET samples = '[1, \"2\"]'", "column 'samples': expected a JSON list of numbers"),
        ("record SET samples = '['", "column 'samples': Expecting value"),
        ("record SET seed = 'x'", "column 'seed': expected a whole number as text"),
        ("record SET run_id = 'x'", "column 'run_id': expected an integer or NULL, got text"),
        ("record SET status = 'x'", "column 'status': 'x' is not a valid Status"),
        ("provenance SET text = '[]'", "column 'provenance': expected a JSON object"),
    ],
)
def test_what_cannot_be_read_names_its_column(path: Path, change: str, message: str) -> None:
    with Database(path) as database:
        database.append([make_record(provenance={"tvm": "1"})])
        database._connection.execute(f"UPDATE {change}")
        with pytest.raises(DatabaseError, match=rf"record 1 cannot be read \({message}"):
            database.query()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("samples = x'00'", "column 'samples': expected text, got a blob"),
        ("samples = '[0.0]'", "0.0 is no latency"),
        ("place = 'x'", "column 'place': expected an integer, got text"),
        ("status = 'x'", "column 'status': 'x' is not a valid Status"),
    ],
)
def test_finals_that_cannot_be_read_name_their_record(
    path: Path, change: str, message: str
) -> None:
    with Database(path) as database:
        database.add_finals([make_entry(one) for one in database.append([make_record()])])
        database._connection.execute(f"UPDATE final SET {change}")
        with pytest.raises(DatabaseError, match=rf"record 1 cannot be read \({message}"):
            database.finals()
        database.delete([1])
        assert database.finals() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write in every folder")
def test_a_folder_that_cannot_be_written(path: Path) -> None:
    with Database(path) as database:
        database.append([make_record()])
    path.parent.chmod(0o555)
    try:
        with pytest.raises(DatabaseError, match=r"it cannot be (opened|written)"):
            Database(path.with_name("new.db"))
        with Database(path, read_only=True) as reader:
            assert reader.count() == 1
    finally:
        path.parent.chmod(0o755)


def test_nothing_in_the_package_can_run_what_it_loads() -> None:
    folder = Path(sys.modules[Database.__module__].__file__ or "").parent
    text = "\n".join(file.read_text() for file in folder.rglob("*.py"))
    for word in ("pickle", "eval(", "exec(", "marshal", "load_extension"):
        assert word not in text


def test_long_texts_are_compressed_and_checked(path: Path) -> None:
    trace = json.dumps({"instructions": [{"kind": "split", "args": [1, 2, 3]}] * 200})
    with Database(path) as database:
        database.append([make_record(trace_json=trace), make_record(trace_json="{}")])
        assert [record.trace_json for record in database.query()] == [trace, "{}"]
    connection = sqlite3.connect(path)
    ((packed,), (short,)) = connection.execute("SELECT trace_json FROM record").fetchall()
    assert len(packed) < len(trace) / 7
    assert short == "{}"
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 1
    for damaged in (bytes(flipped), packed[:-1], b""):
        connection.execute("UPDATE record SET trace_json = ? WHERE id = 1", (damaged,))
        connection.commit()
        with (
            Database(path) as database,
            pytest.raises(DatabaseError, match=r"record 1 cannot be read \(.*: a comp"),
        ):
            database.query()
    connection.close()
