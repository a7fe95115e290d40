"""Files of results: what each was made with stands in it; two of them are compared by name.

``schedlang bench suite.toml --json | python benchmarks/_results.py FILE`` stores what a command
prints.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import schedlang as sl

_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "lightgbm", "numpy", "scipy")


@functools.cache
def made_with() -> dict[str, Any]:
    """Return commit (``-dirty`` where files were changed), date, versions and machine."""
    return {
        "commit": _commit() or "unknown",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "system": platform.platform(),
        "target": sl.Target("cpu").key,
        "cores": os.cpu_count(),
    }


def _commit() -> str:
    """Return the commit; nothing where the files are no checkout, as on a host of a bundle."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def same_machine() -> dict[str, Any]:
    """Return what rows of one file have to have in common: all but commit and date."""
    return {name: value for name, value in made_with().items() if name not in ("commit", "date")}


def store(document: Mapping[str, Any] | Sequence[Any], path: Path) -> None:
    """Write a document, or rows, and what they were made with; the file is whole at any moment."""
    found = dict(document) if isinstance(document, Mapping) else {"rows": list(document)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    whole = {"made_with": {}, **found} | {"made_with": made_with()}
    partial.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--against``."""
    parser.add_argument("--json", type=Path, help="write the values to this file")
    parser.add_argument("--against", type=Path, help="compare with the values in this file")


def read(path: Path) -> dict[str, Any]:
    """Return the values that ``finish`` stored."""
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["values"]
    return values


def finish(found: Mapping[str, str], given: argparse.Namespace) -> int:
    """Store, and compare: print what differs, is new or is gone; return 1 if anything is."""
    if given.json is not None:
        store({"values": dict(found)}, given.json)
    if given.against is None:
        return 0
    before = read(given.against)
    asked = {name: before[name] for name in before if name in found or not given.part}
    changed = [name for name in asked if found.get(name, asked[name]) != asked[name]]
    for what, names in (
        ("differs", changed),
        ("is gone", [name for name in asked if name not in found]),
        ("is new", [name for name in found if name not in before]),
    ):
        for name in names:
            print(f"{what}: {name}")
    same = sum(found.get(name) == value for name, value in asked.items())
    print(f"{same} of {len(asked)} are as before")
    return int(same < len(asked) or not asked)


if __name__ == "__main__":
    store(json.load(sys.stdin), Path(sys.argv[1]))
