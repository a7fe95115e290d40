"""What single words stand for: objects of Python files, sizes of programs, and machines.

Objects are named as ``file.py:name``; sizes are options that the verb itself does not have.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlang.cli.words import TARGETS
from schedlang.errors import SchedlangError, TargetError
from schedlang.printed import nearest


class UsageError(SchedlangError):
    """A word of the command line is wrong."""


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


# How a parameter is annotated that takes a text.
_TEXTS = ("str", "<class 'str'>")
_WORDS = {"true": True, "false": False, "none": None}
# How alike two options are of which one may be meant: "--n" is not "--json".
_NEAR = 0.7
NO_OPTIONS: Mapping[str, bool] = {}
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def sizes_of(words: Sequence[str]) -> dict[str, str]:
    """Return ``--name value`` and ``--name=value`` as a dict."""
    found: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise UsageError(
                f"{word!r} is not expected here; the program comes first, and its sizes follow as "
                "--name value"
            )
        if not equals:
            if not left or left[0].startswith("--"):
                raise UsageError(f"--{name} needs a value")
            value = left.pop(0)
        key = name.replace("-", "_")
        if key in found:
            raise UsageError(f"--{name} is given twice")
        found[key] = value
    return found


def parameters_in(text: str) -> dict[str, inspect.Parameter]:
    """Return the parameters that ``"n=128 dtype=float32"`` stands for, with their defaults."""
    pairs = (word.partition("=")[::2] for word in text.split())
    kind = inspect.Parameter.KEYWORD_ONLY
    return {name: inspect.Parameter(name, kind, default=value_of(one)) for name, one in pairs}


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function; None where they are not known."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions of C have none
        return None


def call_with(
    function: Callable[..., Any],
    name: str,
    sizes: Mapping[str, str],
    options: Mapping[str, bool] = NO_OPTIONS,
) -> Any:
    """Call a function with sizes, which must be its parameters.

    Parameters
    ----------
    name: what the user calls it, for messages.
    options: the verb's own options, and whether they are given: a misspelt one looks like a size.
    """
    parameters = parameters_of(function)
    if parameters is None:
        return function(**{key: value_of(text) for key, text in sizes.items()})
    check_names(parameters, name, sizes, options)
    missing = [
        one.name
        for one in parameters.values()
        if one.default is one.empty and one.kind not in VARIADIC and one.name not in sizes
    ]
    if missing:
        raise UsageError(f"{name} needs {_listed(missing)}; {_takes(parameters)}")
    values = {key: value_of(text, annotation(parameters, key)) for key, text in sizes.items()}
    for key, text in sizes.items():
        if not text and annotation(parameters, key) not in _TEXTS:
            raise UsageError(f"{_option(key)} needs a value")
    return function(**values)


def check_names(
    parameters: Mapping[str, inspect.Parameter],
    name: str,
    sizes: Mapping[str, str],
    options: Mapping[str, bool],
) -> None:
    """UsageError for a size that is no parameter: it names the nearest option or parameter.

    And for an option of the verb that could have been meant as a size.
    """
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for one in parameters:
        if options.get(one.replace("_", "-")) and one not in sizes:
            raise UsageError(
                f"{_option(one)} is an option of the command, and a size of {name}; give the size "
                f"behind --, as in: {name} -- {_option(one)} VALUE"
            )
    for size in sizes:
        if size in parameters:
            continue
        known = [*map(_option, parameters), *(_option(one) for one in options)]
        if size.replace("_", "-") in options:
            raise UsageError(
                f"{_option(size)} is an option of the command, not a size: put it before --"
            )
        close = _near(size, known)
        hint = f"; did you mean {close[0]}?" if close else ""
        takes = "" if close and close[0][2:] in options else f" {_takes(parameters, name)}"
        if takes and not close:
            takes = f".{takes}"
        raise UsageError(f"no option {_option(size)}{hint}{takes}")


def misspelt(words: Sequence[str], options: Iterable[str]) -> str:
    """Return ``"; did you mean --library?"`` for an option that is nearly one; else nothing."""
    known = [_option(one) for one in options]
    close = [one for size in sizes_of(words) for one in _near(size, known)]
    return f"; did you mean {close[0]}?" if close else ""


def _near(size: str, known: Sequence[str]) -> list[str]:
    return difflib.get_close_matches(_option(size), known, n=1, cutoff=_NEAR)


def value_of(text: str, annotated: str = "") -> Any:
    """Return what a word of the command line means: a number, a truth value, several, or a text.

    What a parameter that is annotated ``str`` gets stays text. ``4,8`` is a tuple.
    """
    if annotated in _TEXTS:
        return text
    if "," in text:
        return tuple(value_of(part.strip()) for part in text.split(",") if part.strip())
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return _WORDS.get(text.lower(), text)


def annotation(parameters: Mapping[str, inspect.Parameter], name: str) -> str:
    """Return how a parameter is annotated, for ``value_of``; empty where there is none."""
    return str(parameters[name].annotation) if name in parameters else ""


def _takes(parameters: Mapping[str, inspect.Parameter], name: str = "it") -> str:
    shown = [
        _option(one.name) if one.default is one.empty else f"{_option(one.name)} ({one.default})"
        for one in parameters.values()
        if one.kind not in VARIADIC
    ]
    return f"{name} takes {', '.join(shown)}" if shown else f"{name} takes no sizes"


def _listed(names: Sequence[str]) -> str:
    options = [_option(name) for name in names]
    return " and ".join([", ".join(options[:-1]), options[-1]] if options[1:] else options)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_target(text: str) -> None:
    """TargetError for a name that no target has, which is known without TVM."""
    from schedlang.targets.kinds import is_among, unknown_target

    name = text.partition(",")[0].strip()
    if not is_among(name, TARGETS):
        raise unknown_target(name, TARGETS)


def target_of(text: str) -> Any:
    """Return the target that ``name,argument=value,...`` describes, as in ``cpu,cores=1``."""
    check_target(text)
    name, *words = (part.strip() for part in text.split(","))
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(
                f"--target {text}: {word!r} is no argument; give them as in cpu,cores=1"
            )
        given[key.strip()] = value_of(value.strip())
    from schedlang.targets import Target, kinds

    if not given:
        return Target(name)

    takes = [one for one in inspect.signature(kinds.class_of(name).__init__).parameters][2:]
    for key in given:
        if key not in takes:
            raise UsageError(
                f"--target {text}: {name} has no argument {key!r}; it has {', '.join(takes)}"
            )
    return Target(name, **given)


def target_of_key(key: str) -> Any:
    """Return the target that records are stored under, as this machine can be it."""
    from schedlang.targets import Target

    try:
        return Target.from_key(key).nearest_here()
    except TargetError:  # not known here
        return Target("cpu")
