"""Software versions of a measurement, and whether two toolchains compare."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from schedlang.tvm import codegen


@cache
def schedlang_version() -> str:
    """Return the version that is installed; ``"source"`` where it is not."""
    try:
        return metadata.version("schedlang")
    except metadata.PackageNotFoundError:
        return "source"


def toolchain_key() -> str:
    """Return the versions of schedlang and of the code generators, as text.

    Latencies compare between equal ones.
    """
    return f"schedlang {schedlang_version()} {codegen.toolchain()}"


def software() -> dict[str, str]:
    """Return versions by name: ``tvm, ffi, llvm, python, schedlang, system``."""
    return {
        **codegen.versions(),
        "python": platform.python_version(),
        "schedlang": schedlang_version(),
        "system": f"{platform.system()} {platform.release()}",
    }
