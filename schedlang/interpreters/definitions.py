"""The head of a printed program: imports by public names, and source of what has none."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import symtable
import sys
import textwrap
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from schedlang.distributions import Distribution
from schedlang.errors import SpaceError
from schedlang.instructions.instruction import Instruction

PACKAGE = "schedlang"


def is_ours(module: str | None) -> bool:
    """Return whether a module of this name is part of the library."""
    return module is not None and f"{module}.".startswith(f"{PACKAGE}.")


def public_module(value: Any) -> str | None:
    """Return the module to import a class or function from, by its own qualified name.

    An object of the library is imported from the outermost package that exports it, so that files
    may move without breaking stored and printed programs. ``None`` where the object has no module.
    """
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return None
    if is_ours(module):
        parts = module.split(".")
        for count in range(1, len(parts)):
            package = sys.modules.get(".".join(parts[:count]))
            found = getattr(package, getattr(value, "__qualname__", ""), None)
            if found is not None and inspect.unwrap(found) is inspect.unwrap(value):
                return ".".join(parts[:count])
    return module


_PLAIN = (bool, int, float, str, bytes, type(None), tuple, frozenset)


def head(instructions: Iterable[Instruction]) -> list[str]:
    """Return lines that import schedlang and define the users' instructions and distributions.

    What is defined in a module is imported. The source of what is defined in a script
    (``__main__``) or inside a function is printed, with all that it needs. Raises ``SpaceError``
    where there is no source to print.
    """
    definitions = _Definitions()
    for thing in _defined_by_users(instructions):
        definitions.add(thing.__name__, thing)
    return definitions.lines()


def _defined_by_users(instructions: Iterable[Instruction]) -> Iterator[Any]:
    for instruction in instructions:
        if not instruction.kind.is_method:
            yield instruction.kind.function
        for arg in instruction.args:
            if isinstance(arg, Distribution) and not is_ours(type(arg).__module__):
                yield type(arg)


class _Definitions:
    """Collects each name once, in an order in which every definition follows what it needs."""

    def __init__(self) -> None:
        self.postponed = False
        self.imports: dict[str, list[str]] = {}
        self.modules: list[str] = []
        self.sources: list[str] = []
        self.seen = {"sl"}

    def lines(self) -> list[str]:
        """Return the lines in the order that Python requires."""
        first = ["from __future__ import annotations", ""] if self.postponed else []
        imports = [f"from {m} import {', '.join(sorted(n))}" for m, n in self.imports.items()]
        return [*first, *self.modules, "import schedlang as sl", *imports, *self.sources]

    def add(self, name: str, value: Any) -> None:
        """Define ``name`` as ``value``, by an import or by its source."""
        if name in self.seen:
            return
        self.seen.add(name)
        module, own_name = public_module(value), getattr(value, "__qualname__", "")
        if isinstance(value, ModuleType):
            self.modules.append(f"import {_renamed(value.__name__, name)}")
        elif module not in (None, "__main__") and own_name and "<locals>" not in own_name:
            self.imports.setdefault(str(module), []).append(_renamed(own_name, name))
        elif inspect.isroutine(value) or inspect.isclass(value):
            self._add_source(name, value)
        elif isinstance(value, _PLAIN):
            self.sources.append(f"\n{name} = {value!r}")
        else:
            raise SpaceError(
                f"{name} is of type {type(value).__name__}, which has no source to print; "
                "put what uses it in a file that can be imported"
            )

    def _add_source(self, name: str, value: Any) -> None:
        try:
            source = textwrap.dedent(inspect.getsource(value)).rstrip()
        except (OSError, TypeError):
            raise SpaceError(
                f"{name} was defined where its source cannot be read; put it in a file, "
                "or print trace.flattened()"
            ) from None
        known = _names_around(value)
        self.postponed |= known.get("annotations") is __future__.annotations
        needed, annotated = _free_names(source)
        for other in sorted(needed | annotated):
            if other not in known or hasattr(builtins, other):
                continue
            try:
                self.add(other, known[other])
            except SpaceError:
                if other in needed:
                    raise
        self.sources.append(f"\n\n{source}\n")


def _renamed(own_name: str, name: str) -> str:
    return own_name if own_name == name else f"{own_name} as {name}"


def _names_around(value: Any) -> dict[str, Any]:
    """Return the values of names in a definition: globals, and what a function closes over."""
    known = dict(vars(sys.modules[value.__module__]))
    function = inspect.unwrap(value)
    if inspect.isfunction(function):
        known |= function.__globals__
        known |= inspect.getclosurevars(function).nonlocals
    return known


def _free_names(source: str) -> tuple[set[str], set[str]]:
    """Return the free names of a definition, and those that only its annotations use."""
    tree = ast.parse(source)
    annotations = [
        part
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
    ]
    inside = {id(node) for part in annotations for node in ast.walk(part)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    annotated = {node.id for node in names if id(node) in inside}
    free = set(_globals_of(symtable.symtable(source, "definition", "exec")))
    needed = free & {node.id for node in names if id(node) not in inside}
    return needed, annotated - needed


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    at_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (at_top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals_of(child)
