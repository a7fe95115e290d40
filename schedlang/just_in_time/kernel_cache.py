"""Compiled kernels and default schedules, kept for other processes in a folder of the user's.

A library is named by a digest of all that its code follows from: the program, the schedule, the
target, and the versions of what compiled it. A file of JSON beside it has the digest of its
bytes, and is written last: a library that is damaged, or was not written to its end, is compiled
again. The folder is private to its user, as what it holds is code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlang.errors import JitCacheWarning, SchedlangError
from schedlang.files import write_text
from schedlang.printed import first_line
from schedlang.targets import CompiledFunction, Target, load, toolchain_key
from schedlang.targets.deployment.tensor_arguments import parameter_of
from schedlang.targets.errors import BuildError
from schedlang.terminal import LOGGER
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

# -- The files of one function's kernels ----------------------------------------------------------

FORMAT = 1
"""Counts changes of what the files hold."""
_KEY = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredDefault:
    """The choice of a default schedule.

    Attributes
    ----------
    program_key: of the scheduled program.
    trace: as JSON.
    """

    program_key: str
    trace: str


class KernelCache:
    """The files of one function's kernels for one target."""

    def __init__(self, folder: CacheFolder, target: Target) -> None:
        self._folder = folder
        self._target = target

    def load(self, workload: Workload, program_key: str) -> CompiledFunction | None:
        """Return a kernel from its library; None where there is none that can be used."""
        folder = self._folder.path
        if folder is None:
            return None
        name = self._name(workload, program_key)
        stored = _read(folder / f"{name}.json")
        if stored is None:
            return None
        try:
            digest = stored["library"]
            if not _DIGEST.fullmatch(digest):
                raise ValueError("its digest is damaged")
            path = folder / _library(name, digest)
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise ValueError("its bytes are not those that were written")
            kernel = load(path)[program.MAIN]
            if kernel.signature.parameters != tuple(map(parameter_of, workload.args)):
                raise ValueError("it takes other tensors")
        except (OSError, ValueError, KeyError, TypeError, SchedlangError) as error:
            LOGGER.warning("%s", f"the stored kernel {name} is compiled again: {first_line(error)}")
            return None
        return kernel

    def build(
        self, workload: Workload, program_key: str, mod: program.TensorProgram
    ) -> CompiledFunction:
        """Compile a kernel, into a library where there is a folder. Raises BuildError."""
        folder = self._folder.path
        if folder is None:
            return self._target.build(mod)[program.MAIN]
        name = self._name(workload, program_key)
        path = folder / f".{name}-{os.getpid()}-{threading.get_ident()}.so"
        try:
            self._target.check_present()
            self._target.export_library(mod, path)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            final = folder / _library(name, digest)
            os.replace(path, final)
            kernel = load(final)[program.MAIN]
            self._folder.write(f"{name}.json", _text({"library": digest}))
        except (OSError, BuildError) as error:
            path.unlink(missing_ok=True)
            kernel = self._target.build(mod)[program.MAIN]
            # It compiles: what failed is the folder, or the linker.
            self._folder.give_up(f"no library can be written there: {first_line(error)}")
        return kernel

    def find_default(self, workload: Workload) -> StoredDefault | None:
        """Return the default schedule that was chosen for a program before; None without one."""
        if self._folder.path is None or not self._target_is_ours:
            return None
        stored = _read(self._folder.path / self._default_name(workload))
        if stored is None:
            return None
        try:
            found = StoredDefault(stored["program_key"], stored["trace"])
            if _KEY.fullmatch(found.program_key) and isinstance(found.trace, str):
                return found
        except (KeyError, TypeError):
            pass
        LOGGER.warning("%s", f"the stored default schedule of {workload.name} is chosen again")
        return None

    def keep_default(self, workload: Workload, chosen: StoredDefault) -> None:
        """Keep the choice of a default schedule, where there is a folder."""
        if self._folder.path is None or not self._target_is_ours:
            return
        text = _text({"program_key": chosen.program_key, "trace": chosen.trace})
        try:
            self._folder.write(self._default_name(workload), text)
        except OSError as error:
            self._folder.give_up(f"nothing can be written there: {error.strerror or error}")

    @property
    def _target_is_ours(self) -> bool:
        """Whether the target's space follows from its key: one of a user's own may change."""
        return type(self._target).__module__.startswith("schedlang.")

    def _name(self, workload: Workload, program_key: str) -> str:
        arguments = [str(parameter_of(one)) + one.role for one in workload.args]
        return _digest([*self._made_for, workload.key, program_key, arguments])

    def _default_name(self, workload: Workload) -> str:
        return f"{_digest([*self._made_for, workload.key, 'default'])}.default.json"

    @property
    def _made_for(self) -> list[Any]:
        target = self._target
        return [FORMAT, toolchain_key(), target.key, target.spec(), target.pool_threads]


def _library(name: str, digest: str) -> str:
    # Named by its bytes too: a process never replaces a library that another one has described.
    return f"{name}-{digest[:16]}.so"


def _digest(values: list[Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=repr).encode()).hexdigest()[
        :32
    ]


def _text(values: Mapping[str, str]) -> str:
    return json.dumps({"format": FORMAT, **values})


def _read(path: Path) -> Mapping[str, Any] | None:
    """Return what a file of JSON holds; None without a file, or where it cannot be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        LOGGER.warning("%s", f"the stored file {path.name} is made again: {first_line(error)}")
        return None
    if isinstance(stored, dict) and stored.get("format") == FORMAT:
        return stored
    LOGGER.warning("%s", f"the stored file {path.name} is made again: it is of another format")
    return None


# -- The folder of compiled kernels ---------------------------------------------------------------

_MODE = 0o700


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
