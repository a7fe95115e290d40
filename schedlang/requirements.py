"""The packages that schedlang needs, as ``pyproject.toml`` lists them, and which are installed.

TVM renames its Python API in every release, and with an FFI other than its own it ends the process.
Both are checked before TVM is imported: ``schedlang/tvm/`` calls ``check_tvm``.
"""

from __future__ import annotations

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

from schedlang.errors import VersionError

TVM, FFI = "apache-tvm", "apache-tvm-ffi"

ANY_TVM = "SCHEDLANG_ANY_TVM"
"""Environment variable: with a value, other versions of TVM and its FFI are not refused."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*)")


def check_tvm() -> None:
    """Raise ``VersionError`` where TVM or its FFI has another version than schedlang needs.

    A package that is not installed is left to the import, as a TVM that somebody built has none.
    """
    if os.environ.get(ANY_TVM):
        return
    wanted = requirements()
    wrong = {
        name: (found, wanted[name])
        for name in (TVM, FFI)
        if name in wanted
        and (found := version_of(name)) is not None
        and not fits(found, wanted[name])
    }
    if wrong:
        texts = [f"{name} {found}, needed {spec}" for name, (found, spec) in wrong.items()]
        raise VersionError(
            f"another version of TVM is installed than schedlang works with: {'; '.join(texts)}: "
            f"{install_command({name: spec for name, (_, spec) in wrong.items()})} "
            f"(the environment variable {ANY_TVM}=1 has it tried; it may end the process)"
        )


def requirements() -> dict[str, str]:
    """Return what schedlang needs, by package, as ``"==0.27.0.post1"``; empty if not known.

    It is read from the installed package, or from ``pyproject.toml`` beside a checkout.
    """
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if project.is_file():
        declared = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        listed = declared.get("dependencies", []) if declared.get("name") == "schedlang" else []
    else:
        try:
            listed = metadata.requires("schedlang") or []
        except metadata.PackageNotFoundError:
            listed = []
    found = {}
    for text in listed:
        match = _REQUIREMENT.match(text)
        if match and "extra ==" not in text:
            found[match[1]] = match[2].strip(" ()").replace(" ", "")
    return found


def version_of(package: str) -> str | None:
    """Return the version of an installed package; None where it is not."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def fits(version: str, spec: str) -> bool:
    """Whether a version is one that ``spec`` allows: ``">=2.0,<3"``, ``"==0.27.0.post1"``."""
    if spec == f"=={version}":
        return True
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(spec).contains(version, prereleases=True)


def install_command(wanted: dict[str, str]) -> str:
    """Return the command that installs these versions of packages."""
    return "pip install " + " ".join(f'"{name}{spec}"' for name, spec in wanted.items())
