"""Where a library is written to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from schedlang.targets.errors import LibraryError


def check_destination(path: Path, suffixes: Sequence[str], reason: str = "TVM can load it") -> None:
    """Raise LibraryError for a path where no library can be written; ``reason`` is the suffix's."""
    if path.suffix not in suffixes:
        raise LibraryError(
            f"cannot write {path}: its name must end with one of {', '.join(suffixes)}, so that "
            f"{reason}; such as {path.stem or 'kernel'}.so"
        )
    if path.is_dir():
        raise LibraryError(f"cannot write {path}: this is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise LibraryError(
            f"cannot write {path}: there is no folder {path.parent}; create it first"
        )
    if not os.access(path.parent, os.W_OK):
        raise LibraryError(
            f"cannot write {path}: the folder {path.parent} is read-only; choose another one"
        )
