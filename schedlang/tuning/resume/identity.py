"""Which calls of ``tune`` are the same: a short text of what they are made of."""

from __future__ import annotations

import functools
import hashlib
import json
import types
from typing import Any

from schedlang.spaces.module import Module
from schedlang.spaces.space import Space

_VERSION = 1
_PLAIN = (str, int, float, bool, bytes, complex, type(None), type(...))


def identity(*parts: Any) -> str:
    """32 hex digits, equal in every process for equal parts.

    Functions count by their code, what they close over, and the functions and plain values of their
    own file that they name; modules and spaces by their functions and options; other objects by
    their class and attributes. What a class does, and what other files hold, does not count.
    """
    describer = _Describer()
    text = json.dumps([_VERSION, *map(describer.describe, parts)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Describer:
    """Values as nested lists of text that are the same in every process; each object once."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no two objects have one address

    def describe(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return [type(value).__name__, repr(value)]
        if isinstance(value, type):
            return ["class", value.__module__, value.__qualname__]
        if isinstance(value, types.ModuleType):
            return ["file", value.__name__]
        if id(value) in self._seen:
            return ["again", self._seen[id(value)]]
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        return self._describe_new(value)

    def _describe_new(self, value: Any) -> Any:
        inner = self.describe
        if isinstance(value, Space):
            return ["space", *map(inner, value.modules)]
        if isinstance(value, Module):
            return ["module", value.name, value.at, inner(value.options), inner(value.function)]
        if isinstance(value, functools.partial):
            return ["partial", inner(value.func), inner(value.args), inner(value.keywords)]
        if isinstance(value, types.MethodType):
            return ["method", inner(value.__func__), inner(value.__self__)]
        if isinstance(value, list | tuple):
            return ["sequence", *map(inner, value)]
        if isinstance(value, dict):
            return ["dict", *[[inner(k), inner(v)] for k, v in sorted(value.items(), key=_name)]]
        if isinstance(value, set | frozenset):
            return ["set", *map(inner, sorted(value, key=repr))]
        if isinstance(value, types.CodeType):
            consts = [inner(const) for const in value.co_consts]
            return ["code", value.co_code.hex(), list(value.co_names), consts]
        if isinstance(value, types.FunctionType):
            return self._describe_function(value)
        attributes = inner(vars(value)) if hasattr(value, "__dict__") else ""
        return ["object", type(value).__module__, type(value).__qualname__, attributes]

    def _describe_function(self, value: types.FunctionType) -> Any:
        cells = [self.describe(_content(cell)) for cell in value.__closure__ or ()]
        defaults = [self.describe(value.__defaults__), self.describe(value.__kwdefaults__)]
        named = [
            [name, self.describe(value.__globals__[name])]
            for name in _names(value.__code__)
            if name in value.__globals__ and _belongs(value.__globals__[name], value)
        ]
        return ["function", value.__module__, self.describe(value.__code__), defaults, cells, named]


def _names(code: types.CodeType) -> list[str]:
    """Globals that a function names, and those inside it."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names.update(_names(const))
    return sorted(names)


def _belongs(value: Any, function: types.FunctionType) -> bool:
    """Whether a global counts: plain values, and functions of the same file."""
    if isinstance(value, Module):
        value = value.function
    if isinstance(value, types.FunctionType):
        return value.__module__ == function.__module__
    return isinstance(value, (*_PLAIN, list, tuple, dict, set, frozenset))


def _name(item: tuple[Any, Any]) -> str:
    return repr(item[0])


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is still empty
        return None
