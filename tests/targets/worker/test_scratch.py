"""Folders for temporary files vanish with their owner, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schedlang.targets.worker import process as worker_process
from schedlang.targets.worker.process import ScratchFolder

OWNER = """
import sys, time
from schedlang.targets.worker import process
if sys.argv[1] == "alone":
    process._SHELL = "/nowhere"  # as where the shell is killed too
folder = process.ScratchFolder()
(folder.path / "below").mkdir()
(folder.path / "below" / "file").write_text("text")
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(
    place: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process and its folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, request.param],
        env={**environment, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def gone(path: Path, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return not path.exists()


def test_a_folder_is_removed_when_it_is_closed(place: Path) -> None:
    folder = ScratchFolder()
    (folder.path / "file").touch()
    assert list(place.iterdir()) == [folder.path]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.close()
    folder.close()
    assert not list(place.iterdir())


def test_a_folder_that_is_forgotten_is_removed(place: Path) -> None:
    ScratchFolder()
    assert not list(place.iterdir())


@pytest.mark.parametrize("owner", ["with a shell"], indirect=True)
def test_a_killed_process_leaves_nothing(owner: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = owner
    assert (path / "below" / "file").exists()
    process.send_signal(signal.SIGKILL)
    assert gone(path)


@pytest.mark.parametrize("owner", ["alone"], indirect=True)
def test_what_an_owner_left_is_removed_by_the_next(
    place: Path, owner: tuple[subprocess.Popen[str], Path]
) -> None:
    process, path = owner
    with closing(ScratchFolder()):
        assert path.exists(), "its owner is alive"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.exists()
    with closing(ScratchFolder()) as folder:
        assert list(place.iterdir()) == [folder.path]


def test_only_folders_without_an_owner_are_removed(place: Path, tmp_path: Path) -> None:
    with closing(ScratchFolder()) as first:
        (place / "schedlang-scratch-file").touch()
        (place / "kept").mkdir()
        (place / "schedlang-scratch-link").symlink_to(place / "kept")
        (place / "schedlang-scratch-orphan").mkdir()
        with closing(ScratchFolder()) as second:
            names = {path.name for path in place.iterdir()}
        assert names == {
            first.path.name,
            second.path.name,
            "kept",
            "schedlang-scratch-file",
            "schedlang-scratch-link",
        }


def test_a_fork_of_the_owner_removes_nothing() -> None:
    with closing(ScratchFolder()) as folder:
        child = os.fork()
        if child == 0:
            folder.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert folder.path.exists()


def test_a_folder_that_is_taken_for_an_orphan_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process sweeps between making the folder and locking it."""
    lock, taken = worker_process._lock, []

    def late(path: Path) -> int | None:
        if not taken:
            taken.append(path)
            path.rmdir()
        return lock(path)

    monkeypatch.setattr(worker_process, "_lock", late)
    with closing(ScratchFolder()) as folder:
        assert folder.path != taken[0]
        assert list(place.iterdir()) == [folder.path]
