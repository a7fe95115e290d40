"""Which calls of ``tune`` are the same: a short text of what they are made of."""

from __future__ import annotations

import functools
import hashlib
import json
import types
from typing import Any

from schedlang.module import Module
from schedlang.space import Space

_VERSION = 1
_PLAIN = (str, int, float, bool, bytes, complex, type(None), type(...))
_DEPTH = 12


def identity(*parts: Any) -> str:
    """32 hex digits, equal in every process for equal parts.

    Functions count by their code and what they close over, modules and spaces by their functions
    and options; of other objects only the class does.
    """
    text = json.dumps([_VERSION, *(_described(part, _DEPTH) for part in parts)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _described(value: Any, depth: int) -> Any:
    """``value`` as nested lists of text that are the same in every process."""
    if depth == 0 or isinstance(value, _PLAIN):
        return [type(value).__name__, repr(value) if isinstance(value, _PLAIN) else ""]

    def inner(item: Any) -> Any:
        return _described(item, depth - 1)

    if isinstance(value, Space):
        return ["space", *map(inner, value.modules)]
    if isinstance(value, Module):
        return ["module", value.name, value.at, inner(value.options), inner(value.function)]
    if isinstance(value, functools.partial):
        return ["partial", inner(value.func), inner(value.args), inner(value.keywords)]
    if isinstance(value, list | tuple):
        return ["sequence", *map(inner, value)]
    if isinstance(value, dict):
        return ["dict", *sorted(([inner(k), inner(v)] for k, v in value.items()), key=str)]
    if isinstance(value, set | frozenset):
        return ["set", *sorted(map(inner, value), key=str)]
    if isinstance(value, types.CodeType):
        consts = [inner(const) for const in value.co_consts]
        return ["code", value.co_code.hex(), list(value.co_names), consts]
    if isinstance(value, types.FunctionType):
        cells = [inner(_content(cell)) for cell in value.__closure__ or ()]
        defaults = [inner(value.__defaults__), inner(value.__kwdefaults__)]
        return ["function", value.__module__, inner(value.__code__), defaults, cells]
    if isinstance(value, type):
        return ["class", value.__module__, value.__qualname__]
    return ["object", type(value).__module__, type(value).__qualname__]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is still empty
        return None
