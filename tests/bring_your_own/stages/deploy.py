"""In a process that has the exported libraries only: call them with unaligned numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import schedlang as sl
from tests.bring_your_own.agreement import Call, unaligned
from tests.bring_your_own.stages.child import attempt


@contextmanager
def opened(folder: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield what calls the library of a program by its name."""

    def deploy(name: str) -> dict[str, Any]:
        columns: dict[str, Any] = {}

        def run() -> str:
            call = Call.load(folder / f"{name}.call")
            tensors = [unaligned(value) for value in call.before]
            sl.load(folder / f"{name}.so")(*tensors)
            return call.mismatch(tensors)

        attempt(columns, "deployed", run)
        return columns

    yield deploy
