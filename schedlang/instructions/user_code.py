"""Where in the user's own code a call came from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

_CORE = Path(__file__).resolve().parents[1]
_OURS = tuple(
    str(folder) + "/" for folder in (_CORE, _CORE.parent / "search", _CORE.parent / "targets")
)


def user_location() -> str:
    """Return ``file:line`` of the innermost frame outside the language; empty without one.

    A transformation module counts as user code, the library's own too: it holds the instruction.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if "/modules/" in name or not name.startswith(_OURS):
            if not name.startswith("<frozen"):
                return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
