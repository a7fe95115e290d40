"""Identify equal calls of ``tune`` by a digest of their arguments."""

from __future__ import annotations

import functools
import hashlib
import json
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from schedlang.formats.definitions import is_ours, public_module
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets import toolchain_key
from schedlang.tuning.resume.own_code import digests_of_files, files_reached, names_in

_VERSION = 2
_PLAIN = (str, int, float, bool, bytes, complex, type(None), type(...))
_KEPT = {
    ("schedlang.lab", "RecordedProgram"): "schedlang.measurement.recorded",
    ("schedlang.lab", "RecordedSpace"): "schedlang.measurement",
    ("schedlang.lab", "SimulatedMeasurer"): "schedlang.measurement",
    ("schedlang.lab", "Ways"): "schedlang.measurement.recorded",
}
"""Where identities say that a class is exported which has moved: stored runs go on."""


def identity(*parts: Any) -> str:
    """Return 32 hex digits that are equal in every process for equal parts.

    What belongs to the library counts by its public name, and by the versions of the library and of
    what generates code: its files may move and its docstrings may change. What a user wrote counts
    by its code:

    * functions by their bytecode, what they close over, and the functions and plain values of their
      own file that they name;
    * classes by the bytecode of their methods;
    * modules and spaces by their functions and options;
    * arrays by a digest;
    * other objects by their class and attributes;
    * other files of the user's that these functions and methods name, or something of which they
      name, by their code, without comments and docstrings, and by that of the user's files that
      they import (``own_code`` says which files are the user's own).

    What other files hold does not count: packages that are installed, the standard library.
    """
    describer = _Describer()
    described = [describer.describe(part) for part in parts]
    files = digests_of_files(describer.reached)
    text = json.dumps(
        [_VERSION, toolchain_key(), *described, *([["files", *files]] if files else [])]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Describer:
    """Values as nested lists of text that are the same in every process; each object once.

    Attributes
    ----------
    reached: names of the modules of the user's in other files than the code that names them.
    """

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no two objects have one address
        self.reached: set[str] = set()

    def describe(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return [type(value).__name__, repr(value)]
        if id(value) in self._seen:
            return ["again", self._seen[id(value)]]
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        return self._describe_new(value)

    def _describe_new(self, value: Any) -> Any:
        inner = self.describe
        if isinstance(value, types.ModuleType):
            # Which file of ours it is does not count.
            name = value.__name__
            return ["file", name.rpartition(".")[2] if is_ours(name) else name]
        if isinstance(value, type):
            return self._describe_class(value)
        if isinstance(value, Space):
            part = [inner(value.part)] if value.part else []
            return ["space", *map(inner, value.modules), *part]
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
        if isinstance(value, np.ndarray):
            return ["array", str(value.dtype), list(value.shape), _digest(value)]
        if isinstance(value, np.generic):
            return ["number", str(value.dtype), repr(value)]
        if isinstance(value, types.BuiltinFunctionType | np.ufunc):
            return ["builtin", getattr(value, "__module__", "") or "", value.__name__]
        if isinstance(value, types.CodeType):
            consts = [inner(const) for const in value.co_consts]
            return ["code", value.co_code.hex(), list(value.co_names), consts]
        if isinstance(value, types.FunctionType):
            return self._describe_function(value)
        attributes = inner(vars(value)) if hasattr(value, "__dict__") else ""
        return ["object", inner(type(value)), attributes]

    def _describe_class(self, value: type) -> Any:
        if is_ours(value.__module__):
            return ["class", *_public_name(value)]
        bases = [self.describe(base) for base in value.__bases__ if base is not object]
        methods = []
        for name, function in _methods(value):
            methods.append([name, self.describe(function.__code__)])
            self.reached |= files_reached(function.__code__, function.__globals__)
        return ["class", value.__module__, value.__qualname__, bases, methods]

    def _describe_function(self, value: types.FunctionType) -> Any:
        defaults = [self.describe(value.__defaults__), self.describe(value.__kwdefaults__)]
        cells = [self.describe(_content(cell)) for cell in value.__closure__ or ()]
        if is_ours(value.__module__):
            return ["function", *_public_name(value), defaults, cells]
        self.reached |= files_reached(value.__code__, value.__globals__)
        named = [
            [name, self.describe(value.__globals__[name])]
            for name in names_in(value.__code__)
            if name in value.__globals__ and _belongs(value.__globals__[name], value)
        ]
        return ["function", value.__module__, self.describe(value.__code__), defaults, cells, named]


def _public_name(value: Any) -> tuple[str, str]:
    """Return where the library exports a class or function of its own, ``""`` for nowhere."""
    module = public_module(value)
    exported = "" if module in (None, value.__module__) else str(module)
    return _KEPT.get((exported, value.__qualname__), exported), value.__qualname__


def _methods(value: type) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the functions that a class defines itself, by name."""
    for name, member in sorted(vars(value).items()):
        if isinstance(member, property):
            accessors = [member.fget, member.fset, member.fdel]
        elif isinstance(member, functools.cached_property):
            accessors = [member.func]
        else:
            accessors = [getattr(member, "__func__", member)]
        for accessor in accessors:
            if isinstance(accessor, types.FunctionType):
                yield name, accessor


def _belongs(value: Any, function: types.FunctionType) -> bool:
    """Whether a global counts: plain values, and functions of the same file."""
    if isinstance(value, Module):
        value = value.function
    if isinstance(value, types.FunctionType):
        return value.__module__ == function.__module__
    return isinstance(value, (*_PLAIN, list, tuple, dict, set, frozenset))


def _name(item: tuple[Any, Any]) -> str:
    return repr(item[0])


def _digest(array: np.ndarray[Any, Any]) -> str:
    data = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return hashlib.sha256(data).hexdigest()


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is still empty
        return None
