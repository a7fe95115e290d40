"""The program or the network that a command line names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import schedlang as sl
from schedlang.cli.naming.files import (
    existing_file,
    is_python,
    member_of,
    module_of,
    object_of,
    own_objects,
    split_name,
)
from schedlang.cli.naming.sizes import NO_OPTIONS, call_with, check_names, parameters_in, sizes_of
from schedlang.cli.verb import UsageError
from schedlang.cli.words import OPERATORS, SCRIPT, operator_called
from schedlang.errors import NetworkError, WorkloadError
from schedlang.printed import nearest

if TYPE_CHECKING:
    from schedlang.networks import Network, NetworkSet
    from schedlang.workloads.workload import Workload


class UnknownOperator(UsageError):
    """There is no operator of a name."""


def workload_of(
    what: str, words: Sequence[str], options: Mapping[str, bool] = NO_OPTIONS
) -> Workload:
    """Return the workload that ``what`` names.

    Parameters
    ----------
    what: an operator's name, ``file.py:name``, ``file.py`` with one program, or a ``.tvmscript``
        file, with ``:name`` where it has several functions. Python files are run, and TVMScript is
        executed as Python.
    words: its sizes, as ``["--n", "512"]``.
    options: the verb's own options, to tell a misspelt one from a size: whether each is given.

    UsageError where there is no such program, or it does not take these sizes.
    """
    check_program(what, words, options)
    sizes = sizes_of(words)
    try:
        if is_python(what):
            return _from_python(what, sizes, options)
        if script := _script(what):
            return _from_script(Path(script[0]), script[1])
        return _operator(what, sizes, options)
    except WorkloadError as error:
        raise UsageError(str(error)) from error


def check_program(
    what: str, words: Sequence[str], options: Mapping[str, bool] = NO_OPTIONS
) -> None:
    """UsageError for words that name no program, as far as that is known without TVM."""
    sizes = sizes_of(words)
    if is_python(what):
        existing_file(Path(split_name(what)[0]))
    elif script := _script(what):
        existing_file(Path(script[0]))
        _check_no_sizes(script[0], sizes)
    else:
        _check_operator(what, sizes, options)


def _script(what: str) -> tuple[str, str] | None:
    """Return the file and the function of ``file.tvmscript:function``; None for another word."""
    path, _, function = what.rpartition(":")
    if path.endswith(SCRIPT):
        return path, function
    return (what, "") if what.endswith(SCRIPT) else None


def _check_operator(name: str, sizes: Mapping[str, str], options: Mapping[str, bool]) -> None:
    if name.startswith("-"):
        raise UsageError(f"the program comes first, before {name}: schedlang VERB matmul --n 512")
    if "/" in name or Path(name).exists():
        raise UsageError(f"{name}: a program is in a file that ends in .py or {SCRIPT}")
    found = operator_called(name)
    if found is None:
        hint = nearest(name.lower(), OPERATORS) or "."
        raise UnknownOperator(
            f"no operator {name!r}{hint} Operators: {', '.join(OPERATORS)}. A program of yours is "
            f"named as file.py:function, or is a {SCRIPT} file"
        )
    check_names(parameters_in(found.sizes), name, sizes, options)


def _operator(name: str, sizes: Mapping[str, str], options: Mapping[str, bool]) -> Workload:
    from schedlang.workloads.operators.registry import factory

    made: Workload = call_with(factory(name), name, sizes, options)
    # Answers have the name that was typed, not the one that papers use.
    return replace(made, name=name)


def _from_script(path: Path, function: str) -> Workload:
    from schedlang.workloads import from_script

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


def _from_python(what: str, sizes: Mapping[str, str], options: Mapping[str, bool]) -> Workload:
    path, name = split_name(what)
    module = module_of(Path(path))
    found = member_of(module, name) if name else None
    from schedlang.workloads import as_workload
    from schedlang.workloads.workload import Workload

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


NETWORK = (
    "An ONNX file, or file.py:function that returns a model of PyTorch with its example inputs "
    "(model, inputs), or with an example of each size (model, [inputs, ...]), a Relax module, a "
    "Network or a NetworkSet. The file is run."
)


def check_network(what: str, words: Sequence[str], options: Mapping[str, bool]) -> None:
    """UsageError for words that name no network, as far as that is known without TVM."""
    sizes = sizes_of(words)
    path, name = split_name(what)
    if not is_python(what):
        if not what.endswith(".onnx"):
            raise UsageError(f"{what!r} is no network; give an .onnx file, or file.py:function")
        check_names({}, what, sizes, options)
    elif not name:
        raise UsageError(f"{path}: name the function that returns the model, as {path}:function")
    existing_file(Path(path))


def network_of(
    what: str, words: Sequence[str], options: Mapping[str, bool], layout: str
) -> Network | NetworkSet:
    """Return the network that ``what`` names, called with its sizes, or one at several sizes."""
    check_network(what, words, options)
    if not is_python(what):
        return sl.import_network(what, layout=layout)
    sizes, (_, name) = sizes_of(words), split_name(what)
    found = object_of(what)
    if _is_function(found):
        found = call_with(found, what, sizes, options)
    elif sizes:
        raise UsageError(f"{what} is no function, and takes no sizes")
    model, inputs = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if isinstance(model, sl.Network | sl.NetworkSet):
        return model
    try:
        return sl.import_network(model, inputs, name=name, layout=layout)
    except NetworkError as error:
        if type(error) is not NetworkError:  # operators that cannot be imported
            raise
        raise UsageError(f"{what}: {error}") from error


def _is_function(found: Any) -> bool:
    """Whether it makes a model; a model of torch can be called, too."""
    model = isinstance(found, sl.Network | sl.NetworkSet) or hasattr(found, "forward")
    return callable(found) and not model
