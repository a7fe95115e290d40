"""The program that a command line names, as a workload."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from schedlang.cli.naming.files import is_python, member_of, module_of, own_objects, split_name
from schedlang.cli.naming.sizes import call_with, sizes_of
from schedlang.cli.verb import UsageError
from schedlang.cli.words import OPERATORS, SCRIPT
from schedlang.errors import WorkloadError

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload


class UnknownOperator(UsageError):
    """There is no operator of a name."""


def workload_of(what: str, words: Sequence[str], options: Collection[str] = ()) -> Workload:
    """Return the workload that ``what`` names.

    Parameters
    ----------
    what: an operator's name, ``file.py:name``, ``file.py`` with one program, or a ``.tvmscript``
        file, with ``:name`` where it has several functions. Python files are run, and TVMScript is
        executed as Python.
    words: its sizes, as ``["--n", "512"]``.
    options: names of the verb's own options, to tell a misspelt one from a size.

    UsageError where there is no such program, or it does not take these sizes.
    """
    sizes = sizes_of(words)
    try:
        if is_python(what):
            return _from_python(what, sizes, options)
        path, _, function = what.rpartition(":")
        if what.endswith(SCRIPT) or path.endswith(SCRIPT):
            path, function = (path, function) if path.endswith(SCRIPT) else (what, "")
            return _from_script(Path(path), function, sizes)
        return _operator(what, sizes, options)
    except WorkloadError as error:
        raise UsageError(str(error)) from error


def _operator(name: str, sizes: Mapping[str, str], options: Collection[str]) -> Workload:
    from schedlang.workloads.operators.registry import factory

    if name.startswith("-"):
        raise UsageError(f"the program comes first, before {name}: schedlang VERB matmul --n 512")
    if "/" in name or Path(name).exists():
        raise UsageError(f"{name}: a program is in a file that ends in .py or {SCRIPT}")
    try:
        found = factory(name)
    except WorkloadError as error:
        # The first sentence has the hint; the rest lists names for Python.
        hint = str(error).partition(" Known: ")[0]
        raise UnknownOperator(
            f"{hint} Operators: {', '.join(OPERATORS)}. A program of yours is named as "
            f"file.py:function, or is a {SCRIPT} file"
        ) from None
    made: Workload = call_with(found, name, sizes, options)
    return made


def _from_script(path: Path, function: str, sizes: Mapping[str, str]) -> Workload:
    from schedlang.workloads import from_script

    _check_no_sizes(str(path), sizes)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        return from_script(text, function or path.stem, function=function or None)
    except WorkloadError as error:
        how = f" ({path}:NAME)" if "function=" in str(error) else ""
        raise UsageError(f"{path}: {error}{how}") from error


def _from_python(what: str, sizes: Mapping[str, str], options: Collection[str]) -> Workload:
    from schedlang.workloads import as_workload
    from schedlang.workloads.workload import Workload

    path, name = split_name(what)
    module = module_of(Path(path))
    if not name:
        programs = [key for key, one in own_objects(module).items() if _is_program(one)]
        if len(programs) != 1:
            held = ", ".join(programs) or "no program"
            functions = [key for key, one in own_objects(module).items() if _makes(one, module)]
            known = f" of {', '.join(functions)}" if functions else ""
            raise UsageError(
                f"{path} holds {held}: name a program, or a function that returns one{known}, as "
                f"{path}:name"
            )
        [name] = programs
    found = member_of(module, name)
    if _is_program(found):
        _check_no_sizes(f"{path}:{name}", sizes)
    elif callable(found):
        found = call_with(found, f"{path}:{name}", sizes, options)
    try:
        made = as_workload(found)
    except WorkloadError as error:
        raise UsageError(f"{path}:{name}: {error}") from None
    return made if isinstance(found, Workload) else Workload(made.mod, name)


def _is_program(found: object) -> bool:
    from schedlang.workloads import as_workload

    try:
        as_workload(found)
    except WorkloadError:
        return False
    return True


def _makes(found: object, module: ModuleType) -> bool:
    """Whether it is a function of this file."""
    return inspect.isfunction(found) and found.__module__ == module.__name__


def _check_no_sizes(what: str, sizes: Mapping[str, str]) -> None:
    if sizes:
        name = next(iter(sizes)).replace("_", "-")
        raise UsageError(f"{what} is a program already, and takes no --{name}")
