"""What ``schedlang`` imports when it is asked for a name that it does not have yet."""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

_PACKAGE = "schedlang"
_FOLDER = str(Path(__file__).parent)


def attribute(name: str) -> object:
    """Return a file or folder of the package, else a public name; AttributeError without any."""
    if name == "__all__" or not name.startswith("_"):
        # Python asks for the former when it imports them, too: that must not import all the rest.
        if PathFinder.find_spec(f"{_PACKAGE}.{name}", [_FOLDER]) is not None:
            return import_module(f"{_PACKAGE}.{name}")
        public = import_module(f"{_PACKAGE}._public")
        if hasattr(public, name):
            return getattr(public, name)
    raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
