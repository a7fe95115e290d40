"""The program, the network or the template that words name, and the shapes of a template."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import schedlang as sl
from schedlang.cli.objects import (
    NO_OPTIONS,
    VARIADIC,
    UsageError,
    annotation,
    call_with,
    check_names,
    existing_file,
    is_python,
    member_of,
    module_of,
    object_of,
    own_objects,
    parameters_in,
    parameters_of,
    sizes_of,
    split_name,
    value_of,
)
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
    from schedlang.workloads.operators import factory

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


TEMPLATE = (
    "An operator (matmul), or file.py:function that returns a program for extents. The file is "
    "run. Sizes that are equal in all shapes may follow as --m 768."
)
FORM = "rows=1:512,width=768"
"""What a word of ``--shapes`` looks like."""

Shape = Mapping[str, Any]


def shapes_of(words: Sequence[str], log: Path | None) -> list[Shape]:
    """Return the shapes that words and a log of calls name.

    Parameters
    ----------
    words: of ``--shapes``, each ``name=value`` or ``name=low:high`` for each extent.
    log: a file with a shape in JSON on each line, if there is one.

    UsageError for what cannot be read, and where no shape is given.
    """
    found = [_shape(word) for word in words]
    if log is not None:
        found += _logged(existing_file(log))
    if not found:
        raise UsageError(f"no shape is given: name some with --shapes {FORM}, or --log FILE")
    return found


def _shape(word: str) -> Shape:
    found: dict[str, Any] = {}
    for part in word.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise UsageError(f"--shapes {word}: {part.strip()!r} is no extent; write {FORM}")
        if name in found:
            raise UsageError(f"--shapes {word}: {name} is given twice")
        found[name] = _extent(value, word, name)
    return found


def _extent(text: str, word: str, name: str) -> int | tuple[int, int]:
    """Read ``64`` or ``1:512``, both bounds included."""
    low, colon, high = text.partition(":")
    try:
        bounds = int(low), int(high) if colon else int(low)
    except ValueError:
        raise UsageError(
            f"--shapes {word}: {name}={text}; give a whole number, or low:high such as 1:512"
        ) from None
    if bounds[0] < 1:
        raise UsageError(f"--shapes {word}: {name}={text}; extents are at least 1")
    if bounds[0] > bounds[1]:
        raise UsageError(f"--shapes {word}: {name}={text}; the range is empty")
    return bounds if colon else bounds[0]


def _logged(path: Path) -> list[Shape]:
    found: list[Shape] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(one, Mapping) or not one:
            raise UsageError(f'{path}, line {number}: give extents by name, as in {{"rows": 64}}')
        found.append(one)
    return found


def check_template(
    what: str, words: Sequence[str], shapes: Sequence[Shape], options: Mapping[str, bool]
) -> None:
    """UsageError for words that name no template, as far as that is known without TVM."""
    sizes = sizes_of(words)
    if is_python(what):
        path, name = split_name(what)
        existing_file(Path(path))
        if not name:
            raise UsageError(f"{path}: name the function of extents, as {path}:function")
        _check_twice(sizes, shapes)
        return
    check_program(what, words, options)
    operator = operator_called(what)
    if operator is None:
        raise UsageError(f"{what} is one program; a template is a function: file.py:function")
    _check_extents(parameters_in(operator.sizes), what, sizes, shapes)


def template_of(
    what: str,
    words: Sequence[str],
    shapes: Sequence[Shape],
    options: Mapping[str, bool] = NO_OPTIONS,
) -> Callable[..., Any]:
    """Return the function of extents that ``what`` names; sizes in ``words`` are the same for all.

    UsageError where there is none, or it does not take the extents of the shapes.
    """
    check_template(what, words, shapes, options)
    function: Any
    if is_python(what):
        function = object_of(what)
        if not callable(function):
            raise UsageError(f"{what} is no function of extents, but {_kind(function)}")
    else:
        from schedlang.workloads.operators import factory

        function = factory(what)
    sizes = sizes_of(words)
    parameters = parameters_of(function)
    if parameters is not None:
        check_names(parameters, what, sizes, options)
        _check_extents(parameters, what, sizes, shapes)
    fixed = {
        name: value_of(text, annotation(parameters or {}, name)) for name, text in sizes.items()
    }

    def template(**extents: int) -> Any:
        return function(**fixed, **extents)

    # Messages, and functions of libraries, are called after it.
    template.__name__ = split_name(what)[1].rpartition(".")[2] or what
    return template


def _check_extents(
    parameters: Mapping[str, inspect.Parameter],
    name: str,
    sizes: Mapping[str, str],
    shapes: Sequence[Shape],
) -> None:
    """UsageError for an extent that is no parameter, one that is missing, and one given twice."""
    _check_twice(sizes, shapes)
    given = list(shapes[0])  # the library refuses other extents in other shapes
    takes = [one for one in parameters.values() if one.kind not in VARIADIC]
    shown = ", ".join(
        one.name if one.default is one.empty else f"{one.name} ({one.default})" for one in takes
    )
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        for extent in given:
            if extent not in parameters:
                hint = nearest(extent, parameters) or ";"
                raise UsageError(f"{name} has no extent {extent!r}{hint} it takes {shown}")
    for one in takes:
        if one.default is one.empty and one.name not in (*given, *sizes):
            raise UsageError(f"{name} needs {one.name}: write it into --shapes; it takes {shown}")


def _check_twice(sizes: Mapping[str, str], shapes: Sequence[Shape]) -> None:
    for extent in shapes[0]:
        if extent in sizes:
            raise UsageError(f"{extent} is given twice: in the shapes, and as a size")


def _kind(found: object) -> str:
    name = type(found).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
