"""Objects of Python files, which are named as ``file.py:name``."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlang.cli.verb import UsageError
from schedlang.printed import nearest


def split_name(what: str) -> tuple[str, str]:
    """Split ``file.py:name``; the name is empty where there is none."""
    path, colon, name = what.rpartition(":")
    return (path, name) if colon and path.endswith(".py") else (what, "")


def is_python(what: str) -> bool:
    """Whether it names a Python file, or an object of one."""
    return split_name(what)[0].endswith(".py")


def check_object(what: str) -> tuple[Path, str]:
    """Return the file and the name of ``file.py:name``; UsageError where there is no such file."""
    path, name = split_name(what)
    if not name:
        raise UsageError(f"{what!r} names no object of a file; give file.py:name")
    return existing_file(Path(path)), name


def object_of(what: str) -> Any:
    """Return the object that ``file.py:name`` names. The file is run."""
    path, name = check_object(what)
    return member_of(module_of(path), name)


def made_by(what: str) -> Any:
    """Return the object that ``file.py:name`` names, or what it returns if it is a function."""
    found = object_of(what)
    return found() if inspect.isfunction(found) or inspect.isclass(found) else found


def existing_file(path: Path) -> Path:
    """Return the path of a file; UsageError where there is none."""
    if not path.is_file():
        kind = "it is a folder" if path.is_dir() else "there is no such file"
        names = [] if path.is_dir() else names_in(path.parent)
        raise UsageError(f"{path}: {kind}{nearest(path.name, names, path.with_name)}")
    return path


def module_of(path: Path) -> ModuleType:
    """Run a Python file, and return its module. It imports files beside it."""
    name = existing_file(path).stem
    known = sys.modules.get(name)
    if known is not None and _file_of(known) == path.resolve():
        return known
    if known is not None:
        # A file of the user's may be called like a module that others need: ``code.py``.
        name = f"schedlang_file_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Functions of the file are looked up by its name: pickle does, and TVMScript.
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # At the end, and for good: a function may import when it is called.
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise UsageError(f"{path}: {_place(error, path)}{type(error).__name__}: {error}") from error
    return module


def member_of(module: ModuleType, name: str) -> Any:
    """Return an object of a module; UsageError names the nearest one."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = {key for key in vars(module) if not key.startswith("_")}
            raise UsageError(f"{_place_of(module)} has no {name!r}{nearest(name, names)}")
        found = getattr(found, part)
    return found


def _place_of(module: ModuleType) -> Path:
    """Return the path of a file as the user would write it."""
    path = Path(module.__file__ or module.__name__)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def own_objects(module: ModuleType) -> Mapping[str, Any]:
    """Return the objects that a file defines, without modules and private names."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def names_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder; none where it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def _place(error: BaseException, path: Path) -> str:
    """Return the line of the file that an error comes from: ``"line 3: "``."""
    if isinstance(error, SyntaxError):
        return ""  # its text has the line
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"line {line}: " if line else ""
