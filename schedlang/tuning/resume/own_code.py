"""Other files of the user's that functions reach, and digests of their code.

A file is the user's own where it is a module that can be imported, and neither the library's or
TVM's, nor the standard library's, nor in ``site-packages`` or ``dist-packages``. So an editable
installation is the user's own, whose files lie elsewhere.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import importlib.util
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

from schedlang.formats.definitions import is_ours

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
