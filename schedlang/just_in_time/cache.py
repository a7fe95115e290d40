"""Compiled kernels and default schedules, kept for other processes.

A library is named by a digest of all that its code follows from: the program, the schedule, the
target, and the versions of what compiled it. A file of JSON beside it has the digest of its bytes,
and is written last: a library that is damaged, or was not written to its end, is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.announcing import LOGGER
from schedlang.errors import SchedlangError
from schedlang.just_in_time.cache_folder import CacheFolder
from schedlang.just_in_time.tensors import parameter_of
from schedlang.printed import first_line
from schedlang.targets import CompiledFunction, Target, load, toolchain_key
from schedlang.targets.errors import BuildError
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

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

    def build(self, workload: Workload, program_key: str, mod: TensorProgram) -> CompiledFunction:
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
