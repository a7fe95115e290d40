"""Paths at which no database can be, names that mean something else, and disks that are full."""

from __future__ import annotations

import os
import resource
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlang.database import Database, IncompleteDatabaseWarning, open_database
from schedlang.database.file import this_process
from schedlang.errors import DatabaseError
from tests.database.plausible import make_record, make_run
from tests.processes import limited


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tune.db"


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # the path of one is short: the test works in its folder


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, r"tune.db: it is a named pipe; give the path of a file"),
        (make_socket, r"tune.db: it is a socket; give"),
        (lambda path: path.symlink_to("/dev/null"), r"tune.db: it is a device; give"),
        (lambda path: path.symlink_to("/"), r"tune.db: it is a folder; give the path of a file in"),
        (lambda path: path.symlink_to(path), r"tune.db: the system refuses its path \(Too many .*"),
        (
            lambda path: [path.touch(), os.mkfifo(f"{path}-wal")],
            r"tune.db: tune.db-wal beside it is a named pipe, and SQLite needs a file there",
        ),
        (
            lambda path: [path.touch(), os.mkfifo(f"{path}-journal")],
            r"tune.db: tune.db-journal beside it is a named pipe",
        ),
    ],
    ids=["pipe", "socket", "device", "folder", "circle", "pipe as journal", "other journal"],
)
def test_what_is_no_file_is_not_opened(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], object],
    message: str,
    read_only: bool,
) -> None:
    monkeypatch.chdir(path.parent)
    make(path)
    with pytest.raises(DatabaseError, match=message):
        open_database(path, read_only=read_only)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 5000, r"refuses its path \(File name too long\); choose a shorter one"),
        ("y/" * 2500 + "tune.db", r"refuses its path \(File name too long\)"),
        ("a\0b.db", r"a\\x00b.db'?: its path is no name of a file \(.*embedded null .*\); choose"),
        ("\ud800.db", r"its path is no name of a file"),
        ("file/tune.db", r"the folder .*/file is no folder; move it away, or choose another path"),
        ("file/more/tune.db", r"the folder .*/file/more does not exist"),
    ],
    ids=["long name", "long path", "null", "surrogate", "file as folder", "below a file"],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_paths_that_the_system_refuses(
    tmp_path: Path, name: str, message: str, read_only: bool
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match=message) as raised:
        open_database(tmp_path / name, read_only=read_only)
    assert len(str(raised.value)) < 1000


def test_a_path_that_is_too_long_for_sqlite(tmp_path: Path) -> None:
    folder = tmp_path / ("f" * 200) / ("g" * 200) / ("h" * 200)
    folder.mkdir(parents=True)
    length = len(str(folder / "tune.db"))
    with pytest.raises(
        DatabaseError, match=rf"its path has {length} bytes, .* 504 \(.*\); choose a shorter one"
    ):
        Database(folder / "tune.db")


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(DatabaseError, match=r"tune.db: .*(does not exist|directory is gone)"):
        Database("tune.db")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (":memory:", r"':memory:': every call .*; `sl.open_database\(\)` makes one in memory"),
        ("file:tune.db?mode=memory", r"'file:tune.db\?mode=memory': it is a URI; give the path"),
    ],
)
def test_names_that_mean_something_else_to_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (name, Path(name)):
        for read_only in (False, True):
            with pytest.raises(DatabaseError, match=message):
                open_database(given, read_only=read_only)
    assert not list(tmp_path.iterdir())
    with Database(tmp_path / ":memory:") as database:
        assert database.count() == 0


def test_too_many_open_files(path: Path) -> None:
    """Each number of files that are left to SQLite, from none to enough."""
    with Database(path) as database:
        database.append([make_record()])
    lowest = os.dup(0)
    os.close(lowest)
    told: list[str] = []
    for left in range(100):
        try:
            with limited(resource.RLIMIT_NOFILE, lowest + left):
                Database(path).close()
            break
        except DatabaseError as error:
            told.append(str(error))
    assert 0 < len(told) < 100
    for message in told:
        assert "tune.db: too many files are open (" in message
        assert "close some, or raise the limit (`ulimit -n`)" in message
    with Database(path) as database:
        assert database.count() == 1


@pytest.mark.parametrize("size", [0, 100, 4096, 10_000, 30_000, 45_000, 60_000])
def test_a_full_disk_while_a_file_is_made(path: Path, size: int) -> None:
    """A limit on the size of files stands in for it. The first error is the one to be seen."""
    with (
        pytest.raises(DatabaseError, match=r"the disk is full|reading or writing failed") as raised,
        limited(resource.RLIMIT_FSIZE, size),
    ):
        Database(path)
    assert "rollback" not in str(raised.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IncompleteDatabaseWarning)
        with Database(path) as database:
            database.append([make_record()])
            assert database.count() == 1


def test_a_link_to_a_file_in_use_finds_its_journal(tmp_path: Path, path: Path) -> None:
    """Nothing is missing, and nothing says so."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with Database(path) as database:
        database.add_run(make_run(owner=this_process()))
        database.append([make_record(run_id=1)])
        with warnings.catch_warnings():
            warnings.simplefilter("error", IncompleteDatabaseWarning)
            with open_database(link, read_only=True) as reader:
                assert reader.count() == 1
