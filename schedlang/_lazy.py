"""Names of a package that are imported when they are first used.

The package lists them once, as imports under ``if TYPE_CHECKING`` in its ``__init__.py``: type
checkers read them there, and so does ``places``, which makes a table of them. A name that is asked
for then imports the one module that defines it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, cast


@cache
def places(package: str) -> dict[str, tuple[str, str]]:
    """Return where a package has its names from: ``{name: (module, name in the module)}``."""
    spec = sys.modules[package].__spec__
    # In an archive, too, the loader has the text.
    source = cast(Any, spec).loader.get_source(package)
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def attach(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    The former returns a file or folder of the package, else what one of its names stands for, and
    keeps it; AttributeError for any other name. The file comes first: no public name of a package
    is that of a file which defines another thing.
    """
    module = sys.modules[package]

    def __getattr__(name: str) -> object:
        if not name.startswith("_"):
            if PathFinder.find_spec(f"{package}.{name}", module.__path__) is not None:
                return import_module(f"{package}.{name}")
            if name in places(package):
                source, name_there = places(package)[name]
                value = getattr(import_module(source), name_there)
                setattr(module, name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*vars(module), *module.__all__})

    return __getattr__, __dir__
