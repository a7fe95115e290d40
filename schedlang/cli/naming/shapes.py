"""The template that a command line names, and the shapes to tune it for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlang.cli.naming.files import existing_file, is_python, object_of, split_name
from schedlang.cli.naming.programs import check_program
from schedlang.cli.naming.sizes import (
    NO_OPTIONS,
    annotation,
    check_names,
    parameters_in,
    sizes_of,
    value_of,
)
from schedlang.cli.verb import UsageError
from schedlang.cli.words import operator_called
from schedlang.printed import nearest

TEMPLATE = (
    "An operator (matmul), or file.py:function that returns a program for extents. The file is "
    "run. Sizes that are equal in all shapes may follow as --m 768."
)
FORM = "rows=1:512,width=768"
"""What a word of ``--shapes`` looks like."""

Shape = Mapping[str, Any]
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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
        from schedlang.workloads.operators.registry import factory

        function = factory(what)
    sizes = sizes_of(words)
    parameters = _parameters(function)
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


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions of C have none
        return None


def _check_extents(
    parameters: Mapping[str, inspect.Parameter],
    name: str,
    sizes: Mapping[str, str],
    shapes: Sequence[Shape],
) -> None:
    """UsageError for an extent that is no parameter, one that is missing, and one given twice."""
    _check_twice(sizes, shapes)
    given = list(shapes[0])  # the library refuses other extents in other shapes
    takes = [one for one in parameters.values() if one.kind not in _SEVERAL]
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
