"""A folder for temporary files that vanishes with the process that made it, however that ends.

A process that is killed removes nothing, and its workers are killed with it. So a small process of
the system's shell waits for its end and removes the folder then. Where that one is killed too, the
next process that makes such a folder removes what has no owner any more: an owner holds a lock on
its folder.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

_PREFIX = "schedlang-scratch-"
_SHELL = "/bin/sh"
# Waits until the other end of its standard input is closed. What else is being killed at that
# moment may still write into the folder, so that removing it may take several attempts.
_REMOVE_AFTERWARDS = """
read -r nothing
attempts=0
until rm -rf -- "$1" || [ "$attempts" -ge 20 ]; do
    attempts=$((attempts + 1))
    sleep 0.1
done
"""


class ScratchFolder:
    """An empty folder in the system's folder for temporary files; ``close`` removes it.

    Attributes
    ----------
    path: where it is.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        _remove_orphans(place)
        self.path, lock, remover = _make(place)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, remover, os.getpid())

    def close(self) -> None:
        """Remove it with all its content; safe to call twice."""
        self._finalizer()


def _make(place: Path) -> tuple[Path, int, subprocess.Popen[bytes] | None]:
    """Make a folder; return it, a descriptor that holds its lock, and what removes it."""
    while True:
        path = place / f"{_PREFIX}{secrets.token_hex(8)}"
        # First: this process may be killed at any moment.
        remover = _start_remover(path)
        path.mkdir(mode=0o700)
        lock = _lock(path)
        if lock is not None and path.exists():
            return path, lock, remover
        # Another process took it for an orphan before it was locked.
        _remove(path, lock, remover, os.getpid())


def _start_remover(path: Path) -> subprocess.Popen[bytes] | None:
    """Start what removes a folder when this process has ended; None without a shell."""
    try:
        return subprocess.Popen(
            [_SHELL, "-c", _REMOVE_AFTERWARDS, _SHELL, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the owner
        )
    except OSError:
        return None


def _remove_orphans(place: Path) -> None:
    """Remove the folders of processes that were killed together with what would remove them."""
    for path in place.glob(f"{_PREFIX}*"):
        lock = _lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _lock(path: Path) -> int | None:
    """Lock a folder of this user's; return the descriptor that holds the lock.

    None where it has an owner, or is none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove(
    path: Path, lock: int | None, remover: subprocess.Popen[bytes] | None, owner: int
) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner's ends
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        os.close(lock)
    if remover is not None:
        assert remover.stdin is not None
        with suppress(OSError):
            remover.stdin.close()
        remover.wait()
