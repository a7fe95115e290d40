"""Public names: where a user imports an object from, whichever file of ours defines it."""

from __future__ import annotations

import inspect
import sys
from typing import Any

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
