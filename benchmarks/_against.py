"""Values by name, written to a file and compared with those of another state of the library."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _made_with import made_with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--against``."""
    parser.add_argument("--json", type=Path, help="write the values to this file")
    parser.add_argument("--against", type=Path, help="compare with the values in this file")


def write(found: Mapping[str, Any], path: Path) -> None:
    """Write values, and what they were made with."""
    document = {"made_with": made_with(), "values": dict(found)}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Return the values that ``write`` wrote."""
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["values"]
    return values


def finish(found: Mapping[str, str], given: argparse.Namespace) -> int:
    """Write, and compare: print what differs, is new or is gone; return 1 if anything is."""
    if given.json is not None:
        write(found, given.json)
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
