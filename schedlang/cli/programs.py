"""What a command line names: an operator with its sizes, an object of a file, a TVMScript file."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlang import workloads
from schedlang.cli.verb import UsageError
from schedlang.errors import WorkloadError
from schedlang.workloads.workload import Workload

_SCRIPT = ".tvmscript"


def workload_of(what: str, extra: Sequence[str], options: Sequence[str] = ()) -> Workload:
    """Return the workload that ``what`` names.

    Parameters
    ----------
    what: an operator's name, ``file.py:name``, ``file.py`` with one program, or a ``.tvmscript``
        file. Python files are run, and TVMScript is executed as Python.
    extra: the sizes, as ``["--n", "512"]``.
    options: names of the verb's own options, to tell a misspelt one from a size.

    UsageError where nothing of that name is there, WorkloadError where it is no program.
    """
    sizes = sizes_of(extra)
    _check_no_option(sizes, options)
    path, _, name = what.rpartition(":") if ".py:" in what else (what, "", "")
    if path.endswith(".py"):
        return _from_python(Path(path), name, sizes)
    if path.endswith(_SCRIPT):
        _check_no_sizes(what, sizes)
        return workloads.from_script(_text(Path(path)), Path(path).stem)
    try:
        return workloads.get(what, **sizes)
    except WorkloadError as error:
        raise UsageError(
            f"{error}. A program of yours: file.py:function, or a {_SCRIPT} file"
        ) from None


def sizes_of(extra: Sequence[str]) -> dict[str, Any]:
    """Return ``--name value`` and ``--name=value`` as a dict; whole numbers become ints."""
    found: dict[str, Any] = {}
    words = list(extra)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise UsageError(f"{word!r} is not expected; sizes are given as --name value")
        if not equals:
            if not words or words[0].startswith("--"):
                raise UsageError(f"--{name} needs a value")
            value = words.pop(0)
        key = name.replace("-", "_")
        if key in found:
            raise UsageError(f"--{name} is given twice")
        found[key] = int(value) if value.lstrip("-").isdigit() else value
    return found


def object_of(what: str) -> Any:
    """Return the object that ``file.py:name`` names."""
    path, colon, name = what.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise UsageError(f"{what!r}: give an object of a file as file.py:name")
    return _member(_module(Path(path)), name)


def _from_python(path: Path, name: str, sizes: Mapping[str, Any]) -> Workload:
    module = _module(path)
    if name:
        found = _member(module, name)
    else:
        programs = {key: one for key, one in vars(module).items() if _is_program(one)}
        if len(programs) != 1:
            listed = f"; it has {', '.join(programs)}" if programs else ""
            raise UsageError(f"{path} holds {len(programs)} programs{listed}: give {path}:name")
        [(name, found)] = programs.items()
    if not _is_program(found) and callable(found):
        try:
            found = found(**sizes)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from inside of it
            raise UsageError(f"{path}:{name}: {error}; sizes are given as --name value") from None
    else:
        _check_no_sizes(f"{path}:{name}", sizes)
    made = workloads.as_workload(found)
    return made if isinstance(found, Workload) else Workload(made.mod, name)


def _is_program(found: object) -> bool:
    try:
        workloads.as_workload(found)
    except WorkloadError:
        return False
    return True


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Functions of the file are looked up by its name, and it imports files beside it.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _member(module: ModuleType, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    close = difflib.get_close_matches(name, vars(module), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"{module.__file__} has no {name!r}{hint}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _check_no_sizes(what: str, sizes: Mapping[str, Any]) -> None:
    if sizes:
        raise UsageError(f"{what} is a program already and takes no --{next(iter(sizes))}")


def _check_no_option(sizes: Mapping[str, Any], options: Sequence[str]) -> None:
    for name in sizes:
        close = difflib.get_close_matches(name, options, n=1, cutoff=0.75)
        if close:
            raise UsageError(f"no option --{name}; did you mean --{close[0].replace('_', '-')}?")
