"""Arrays and tolerances that a command line gives."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlang.cli.verb import UsageError


def arrays_of(path: Path) -> Mapping[str, Any]:
    """Read the arrays of a ``.npz`` file by name; pickled objects are refused."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
        if not hasattr(found, "files"):
            raise UsageError(
                f"{path} holds one array without a name; save arrays by the names of the "
                "program's arguments: numpy.savez(path, A=a, B=b)"
            )
        with found as stored:
            return {name: stored[name] for name in stored.files}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: its arrays cannot be read: {error}") from None


def tolerance_of(texts: Sequence[str]) -> Any:
    """Return what ``tune`` takes as a tolerance.

    Each text is ``1e-3`` (relative), ``1e-3,1e-5`` (relative and absolute), or one of them behind
    the name of an output: ``C=1e-3``.
    """
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if len(texts) > 1 and not equals:
            raise UsageError(f"--tolerance {text}: of several, each names its output: C=1e-3")
        named[name] = _numbers(numbers, text)
    return named[""] if "" in named else (named or None)


def _numbers(text: str, given: str) -> float | tuple[float, float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    raise UsageError(
        f"--tolerance {given}: give a relative error such as 1e-3, or a relative and an absolute "
        "one: 1e-3,1e-5"
    )
