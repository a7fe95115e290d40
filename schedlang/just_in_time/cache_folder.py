"""The folder of compiled kernels: private to its user, as what it holds is code."""

from __future__ import annotations

import os
import shutil
import stat
import warnings
from pathlib import Path

from schedlang.announcing import LOGGER
from schedlang.files import write_text

_MODE = 0o700


class JitCacheWarning(UserWarning):
    """Kernels are compiled in every process: the folder that would keep them cannot be used."""


def default_root() -> Path | None:
    """Return ``$XDG_CACHE_HOME/schedlang/jit``, by default below ``~/.cache``; None without a home.

    A relative path in the variable does not count, as its specification says.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "schedlang" / "jit"


class CacheFolder:
    """A folder below the cache's root, made when it is first needed.

    Parameters
    ----------
    root: the cache, if there is one.
    name: of the folder.
    """

    def __init__(self, root: Path | None, name: str) -> None:
        self._root = root
        self._name = name
        self._prepared = root is None
        self._path: Path | None = None

    @property
    def path(self) -> Path | None:
        """The folder; None where there is none. A JitCacheWarning says once why it is not used."""
        if not self._prepared:
            self._prepared = True
            assert self._root is not None
            try:
                reason = _prepare(self._root) or _prepare(self._root / self._name)
            except OSError as error:
                reason = f"it cannot be made: {error.strerror or error}"
            if reason:
                self._warn(reason)
            else:
                self._path = self._root / self._name
        return self._path

    def give_up(self, reason: str) -> None:
        """Use it no more in this process; a JitCacheWarning says why."""
        if self._path is not None:
            self._path = None
            self._warn(reason)

    def write(self, name: str, text: str) -> None:
        """Write a file that other processes see when it is complete. Raises FileError."""
        if self.path is None:
            return
        write_text(self.path / name, text)

    def clear(self) -> int:
        """Remove the folder's files; return their number. Processes keep what they have loaded."""
        if self.path is None:
            return 0
        removed = 0
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)  # left by a compiler that was killed
            else:
                entry.unlink(missing_ok=True)
                removed += 1
        return removed

    def _warn(self, reason: str) -> None:
        assert self._root is not None
        text = (
            f"the cache folder {self._root} is not used: {reason}; each process compiles its "
            "kernels. Give another one with cache=, or cache=False"
        )
        LOGGER.warning("%s", text)
        warnings.warn(text, JitCacheWarning, stacklevel=2)


def _prepare(folder: Path) -> str:
    """Make a folder that only its user can write; return why it cannot be trusted, else nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_MODE, exist_ok=True)
    if not hasattr(os, "geteuid"):
        return ""
    for place in (folder, *folder.absolute().parents):
        found = place.stat()
        if place == folder:
            if found.st_uid != os.geteuid():
                return f"{place} belongs to another user, and what it holds is code"
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return f"other users may write {place}, and what it holds is code: chmod 700 it"
        elif found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"other users may write {place}, and could put a folder of theirs below it"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} is read-only"
    return ""
