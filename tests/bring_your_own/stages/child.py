"""The process that does one stage of the rows that it is given, and reports each of them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "\x1e"
"""Starts the lines that are for the parent; a library may print others."""


def report(**event: Any) -> None:
    """Tell the parent."""
    sys.__stdout__.write(MARK + json.dumps(event) + "\n")
    sys.__stdout__.flush()


def attempt(columns: dict[str, Any], column: str, do: Callable[[], str | None]) -> None:
    """Note in a column why ``do`` failed: what it returned or raised; empty where it did not."""
    try:
        columns[column] = do() or ""
    except Exception as error:
        lines = str(error).splitlines() or [""]
        columns[column] = f"{type(error).__name__}: {lines[0]}"[:500]


def main() -> None:
    stage, folder, given = sys.argv[1:]
    settings = json.loads(given)
    names = settings.pop("names")
    module = importlib.import_module(f"tests.bring_your_own.stages.{stage}")
    with module.opened(Path(folder), **settings) as work:
        for name in names:
            report(begin=name)
            report(end=name, columns=work(name))


if __name__ == "__main__":
    main()
