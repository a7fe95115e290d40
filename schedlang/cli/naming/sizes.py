"""Sizes of a program, given as options that the verb itself does not have."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from schedlang.cli.verb import UsageError

# How a parameter is annotated that takes a text.
_TEXTS = ("str", "<class 'str'>")
_WORDS = {"true": True, "false": False, "none": None}
# How alike two options are of which one may be meant: "--n" is not "--json".
_NEAR = 0.7
NO_OPTIONS: Mapping[str, bool] = {}
_POSITIONAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions of C have none
        return function(**{key: value_of(text) for key, text in sizes.items()})
    check_names(parameters, name, sizes, options)
    missing = [
        one.name
        for one in parameters.values()
        if one.default is one.empty and one.kind not in _POSITIONAL and one.name not in sizes
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
        if one.kind not in _POSITIONAL
    ]
    return f"{name} takes {', '.join(shown)}" if shown else f"{name} takes no sizes"


def _listed(names: Sequence[str]) -> str:
    options = [_option(name) for name in names]
    return " and ".join([", ".join(options[:-1]), options[-1]] if options[1:] else options)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
