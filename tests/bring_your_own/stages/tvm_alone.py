"""In a process without schedlang: execute what ``as_tvm_python`` wrote, and compare the program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from tests.bring_your_own.stages.child import attempt


@contextmanager
def opened(folder: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield what executes the text of a program by its name."""

    def execute(name: str) -> dict[str, Any]:
        columns: dict[str, Any] = {}

        def run() -> str | None:
            path = folder / f"{name}.tvm.py"
            made: dict[str, Any] = {"__name__": name}
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), made)
            if "schedlang" in sys.modules:
                return "the text imports schedlang"
            stored = tvm.ir.load_json((folder / f"{name}.mod.json").read_text(encoding="utf-8"))
            same = tvm_ffi.structural_equal(made["sch"].mod, stored)
            return None if same else "the text makes another program"

        attempt(columns, "as_tvm", run)
        return columns

    yield execute
