"""Files that are whole or not there. A limit on the size of files stands in for a full disk."""

from __future__ import annotations

import pickle
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.files import replacing, write_text
from schedlang.just_in_time.kernel_cache import CacheFolder
from schedlang.shapes import shape_file as stored
from tests.processes import limited
from tests.report.synthetic import make_history

LARGE, HISTORY = "x" * 100_000, make_history(40)


def write_report(path: Path) -> None:
    sl.report.write(HISTORY, path)


def write_trace(path: Path) -> None:
    HISTORY.to_trace(path)


def write_set(path: Path) -> None:
    stored.write(path, {"format": LARGE})


def write_cache(path: Path) -> None:
    CacheFolder(path.parent.parent, path.parent.name).write(path.name, LARGE)


WRITERS = [write_report, write_trace, write_set, write_cache, lambda path: write_text(path, LARGE)]


@pytest.mark.parametrize("old", ["the old one", None])
@pytest.mark.parametrize("write", WRITERS)
def test_a_full_disk_leaves_what_there_was(
    write: Callable[[Path], None], old: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    path = folder / "file.json"
    if old is not None:
        path.write_text(old)
    with (
        limited(resource.RLIMIT_FSIZE, 4096),
        pytest.raises(sl.FileError, match=r"file.json: .* cannot be written: .*; free") as raised,
    ):
        write(path)
    assert (path.read_text() if path.exists() else None) == old
    assert [one.name for one in folder.iterdir()] == ([] if old is None else ["file.json"])
    assert isinstance(raised.value, OSError) and raised.value.filename == str(path)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.errno, again.filename, str(again)) == (
        raised.value.errno,
        str(path),
        str(raised.value),
    )
    write(path)
    assert path.stat().st_size > 4096


def test_a_library_on_a_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    mod, path = sl.workloads.matmul(4, 4, 4).mod, tmp_path / "kernel.so"
    path.write_text("old")
    for export in (sl.Target("cpu").export_library, sl.Target("cpu").export_c):
        with limited(resource.RLIMIT_FSIZE, 16), pytest.raises(sl.SchedlangError):
            export(mod, path)
        assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_what_raises_in_the_block_leaves_what_there_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as written:
        written.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_a_link_and_permissions_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_itself() -> None:
    with pytest.raises(sl.FileError, match="/dev/full: the log cannot .* No space left"):
        write_text("/dev/full", "text", "the log")
    assert Path("/dev/full").is_char_device()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(sl.FileError, match=r"none/file: .* No such file .*; make its folder, or"):
        write_text(tmp_path / "none" / "file", "text")
