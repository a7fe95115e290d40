"""What a package imports when it is asked for a name that it does not have yet."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder


def attribute(name: str, package: str) -> object:
    """Return a file or folder of a package, else a name of its ``_public``; AttributeError without.

    The file comes first: no public name of a package is that of a file which defines another thing.
    """
    if name == "__all__" or not name.startswith("_"):
        # Python asks for the former when it imports them, too: that must not import all the rest.
        if PathFinder.find_spec(f"{package}.{name}", sys.modules[package].__path__) is not None:
            return import_module(f"{package}.{name}")
        public = import_module(f"{package}._public")
        if hasattr(public, name):
            return getattr(public, name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
