"""Identify equal calls of ``tune`` by a digest of their arguments.

``identity`` is what a stored run is found by: the same call has the same digest in every process.
What belongs to the library counts by its public name; what a user wrote counts by its code, other
files of the user's that it reaches included.
"""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import importlib.util
import json
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.interpreters.definitions import is_ours, public_module
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets import toolchain_key

# -- The digest of a call -------------------------------------------------------------------------

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
      they import (which files are the user's own is said below).

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


# -- Files of the user's that functions reach, and digests of their code --------------------------
#
# A file is the user's own where it is a module that can be imported, and neither the library's or
# TVM's, nor the standard library's, nor in ``site-packages`` or ``dist-packages``. So an editable
# installation is the user's own, whose files lie elsewhere.

_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
_LOADERS = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES))
_TVM = ("tvm", "tvm_ffi")  # the toolchain's key has its version

# What was read of a file, by the name of its module, as long as this module is loaded: what runs is
# what was imported, whatever has been written since.
_READ: dict[str, tuple[ModuleSpec, str, tuple[str, ...]]] = {}


def digests_of_files(modules: Iterable[str]) -> list[list[str]]:
    """Return name and digest of the user's own files among modules, and of those they import.

    Files of the user's are followed from import to import, those inside functions too. Comments,
    docstrings and layout do not count. Of a file that cannot be read, only the name counts.
    """
    found: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        spec = None if name in found else _own(name)
        if spec is not None:
            found[name], imports = _read(name, spec)
            pending += imports
    return [[name, found[name]] for name in sorted(found)]


def files_reached(code: types.CodeType, scope: Mapping[str, Any]) -> set[str]:
    """Return the user's own modules, but for that of ``scope``, that code names or imports.

    ``scope`` holds the globals of the code.
    """
    names = names_in(code)
    found = set(_imported_by(code, str(scope.get("__package__") or "")))
    for name in names:
        value = scope.get(name)
        if isinstance(value, types.ModuleType):
            _follow(value, names, found)
        else:
            found.add(str(getattr(value, "__module__", "")))
    return {name for name in found - {scope.get("__name__")} if _own(name) is not None}


def names_in(code: types.CodeType) -> list[str]:
    """Return the names that a function uses, and those inside it."""
    return sorted({name for inner in _parts(code) for name in inner.co_names})


def _parts(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _parts(const)


def _follow(module: types.ModuleType, names: Iterable[str], found: set[str]) -> None:
    """Add a module, and those below it that are named: ``package.folder.file``."""
    if module.__name__ in found or is_ours(module.__name__):
        return
    found.add(module.__name__)
    for name in names:
        inner = vars(module).get(name)
        if isinstance(inner, types.ModuleType):
            _follow(inner, names, found)


def _imported_by(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield modules that a function imports when it runs: absolute names, and those beside it."""
    for inner in _parts(code):
        for step in dis.get_instructions(inner):
            if step.opname == "IMPORT_NAME":
                for base in (step.argval, f"{package}.{step.argval}".strip(".")):
                    yield base
                    yield from (f"{base}.{name}" for name in inner.co_names)


def _find(name: str) -> ModuleSpec | None:
    """Return where a module comes from; it is not imported, nor are the packages around it."""
    if not all(name.split(".")):
        return None
    if name in sys.modules:
        found = getattr(sys.modules[name], "__spec__", None)
        return found if isinstance(found, ModuleSpec) else None
    parent = name.rpartition(".")[0]
    if not parent:
        with suppress(ImportError, ValueError):
            return importlib.util.find_spec(name)
        return None
    above = _find(parent)
    folders = () if above is None else above.submodule_search_locations or ()
    made = (FileFinder(folder, *_LOADERS).find_spec(name) for folder in folders)
    return next(filter(None, made), None)


def _own(name: str) -> ModuleSpec | None:
    """Return where a module comes from if it is a file of the user's own."""
    if is_ours(name) or name.partition(".")[0] in _TVM:
        return None
    spec = _find(name)
    if spec is None or not spec.has_location or not spec.origin:
        return None
    path = Path(spec.origin)
    installed = not _INSTALLED.isdisjoint(path.parts) or not _STANDARD.isdisjoint(path.parents)
    return None if installed else spec


def _read(name: str, spec: ModuleSpec) -> tuple[str, tuple[str, ...]]:
    """Return a digest of a file's code, and the modules that it imports."""
    known, digest, imports = _READ.get(name, (None, "", ()))
    if known is not spec:
        digest, imports = _parse(spec)
        if name in sys.modules:
            _READ[name] = spec, digest, imports
    return digest, imports


def _parse(spec: ModuleSpec) -> tuple[str, tuple[str, ...]]:
    try:
        content = Path(str(spec.origin)).read_bytes()
    except OSError:
        return "", ()  # deleted meanwhile
    try:
        tree = ast.parse(content)
        imports = tuple(_imports(tree, spec))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                node.body = node.body[ast.get_docstring(node) is not None :]
        content = ast.dump(tree).encode()
    except (SyntaxError, ValueError, RecursionError):
        imports = ()  # compiled code
    return hashlib.sha256(content).hexdigest(), imports


def _imports(tree: ast.AST, spec: ModuleSpec) -> Iterator[str]:
    package = spec.name if spec.submodule_search_locations is not None else spec.parent
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                around = str(package).split(".")
                base = ".".join([*around[: len(around) - node.level + 1], *filter(None, [base])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
