"""``jit``, the decorator."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

from schedlang.database import Database
from schedlang.database.sqlite.place import IN_MEMORY
from schedlang.just_in_time.cache import KernelCache
from schedlang.just_in_time.cache_folder import CacheFolder, default_root
from schedlang.just_in_time.choices import Chooser, FindsKernels
from schedlang.just_in_time.function import JitFunction
from schedlang.just_in_time.signature import SignedTemplate
from schedlang.targets import Target, as_target
from schedlang.targets.deployment.identifiers import identifier
from schedlang.tuning.options import whole, wrong_seconds

_NAME_LENGTH = 40


@overload
def jit(
    template: Callable[..., Any],
    /,
    *,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    shapes: FindsKernels | None = None,
    trials: int = 0,
    seconds: float | None = None,
    cache: str | os.PathLike[str] | bool | None = True,
) -> JitFunction: ...


@overload
def jit(
    *,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    shapes: FindsKernels | None = None,
    trials: int = 0,
    seconds: float | None = None,
    cache: str | os.PathLike[str] | bool | None = True,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    template: Callable[..., Any] | None = None,
    /,
    *,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    shapes: FindsKernels | None = None,
    trials: int = 0,
    seconds: float | None = None,
    cache: str | os.PathLike[str] | bool | None = True,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Make a function of tensors of a template: a function of extents that returns a program.

    A call finds the extents from the tensors' shapes. The first call with new extents takes the
    best verified record of the database, else a kernel of ``shapes``, else it tunes if a budget is
    given, else it takes ``default_schedule``, which measures nothing. docs/jit.md has the rest.

    Parameters
    ----------
    template: returns what ``tune`` takes. Its parameters without a default are extents, the others
        are settings with a value of their own; both can be given by keyword.
    database: a path or a ``Database``: where records are, and where tuning puts them. A path
        without a file has no records.
    target: a ``Target`` or its name.
    shapes: an object with ``find(extents) -> callable or None``.
    trials: candidates to measure for new extents without a record; 0, the default, never tunes.
    seconds: wall time of tuning for new extents; None, the default, sets none.
    cache: the folder for compiled kernels; by default ``~/.cache/schedlang/jit``, or below
        ``$XDG_CACHE_HOME``. False or None keeps them in this process only.

    Raises TypeError for a template with ``*args``, ValueError for a budget without a database.
    """
    if reason := whole(0)(trials):
        raise ValueError(f"sl.jit: trials={trials!r}; {reason}")
    if seconds is not None and (reason := wrong_seconds(seconds)):
        raise ValueError(f"sl.jit: seconds={seconds!r}; {reason}")
    if (trials or seconds is not None) and database is None:
        raise ValueError(
            "sl.jit: trials= and seconds= need a database=, or each process would tune again"
        )
    if shapes is not None and not callable(getattr(shapes, "find", None)):
        raise TypeError(f"sl.jit: shapes={shapes!r} has no method find(extents)")
    place, name = _database(database)
    root = default_root() if cache is True else Path(os.path.abspath(cache)) if cache else None
    machine = as_target(target)

    def made(function: Callable[..., Any]) -> JitFunction:
        read = SignedTemplate(function)
        folder = CacheFolder(root, _folder_name(function, read.name))
        kept = KernelCache(folder, machine)
        chooser = Chooser(machine, place, name, shapes, trials, seconds, kept)
        return JitFunction(read, chooser, folder)

    return made if template is None else made(template)


def _database(
    given: Database | str | os.PathLike[str] | None,
) -> tuple[Database | Path | None, str]:
    """Return the database, its path made absolute, and its name for messages."""
    if given is None:
        return None, ""
    if isinstance(given, Database):
        return given, "the database" if given.path is None else str(given.path)
    if os.fspath(given) == IN_MEMORY:
        raise ValueError(
            f"sl.jit: database={IN_MEMORY!r} would keep nothing between calls; give a path, or a "
            "Database()"
        )
    return Path(os.path.abspath(given)), os.fspath(given)


def _folder_name(function: Callable[..., Any], name: str) -> str:
    place = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', name)}"
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"{identifier(name)[:_NAME_LENGTH]}-{digest}"
