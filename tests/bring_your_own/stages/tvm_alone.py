"""In a process without schedlang: execute what ``as_tvm_python`` wrote, compare the programs."""

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
    """Yield what executes all texts of a program by its name."""

    def execute(name: str) -> dict[str, Any]:
        columns: dict[str, Any] = {}

        def run() -> str | None:
            paths = sorted(folder.glob(f"{name}.*.tvm.py"))
            for path in paths:
                made: dict[str, Any] = {"__name__": name}
                exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), made)
                if "schedlang" in sys.modules:
                    return "the text imports schedlang"
                program = path.name.replace(".tvm.py", ".mod.json")
                stored = tvm.ir.load_json((folder / program).read_text(encoding="utf-8"))
                if not tvm_ffi.structural_equal(made["sch"].mod, stored):
                    return f"text {path.name} makes another program"
            return None if paths else "no text"

        attempt(columns, "as_tvm", run)
        return columns

    yield execute
