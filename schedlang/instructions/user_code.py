"""Where in the user's own code a call came from."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import FrameType

_CORE = Path(__file__).resolve().parents[1]
_OURS = tuple(
    str(folder) + "/" for folder in (_CORE, _CORE.parent / "search", _CORE.parent / "targets")
)
_MODULES = str(_CORE / "modules") + "/"
_INSTALLED = ("/site-packages/", "/dist-packages/", f"/python{sys.version_info.major}.")


def user_location() -> str:
    """Return ``file:line`` of the innermost frame outside the language; empty without one.

    A transformation module counts as user code, the library's own too: it holds the instruction.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def raised_at(error: BaseException, *, installed: bool = True) -> str:
    """Return ``file:line`` of the innermost frame of user code that an exception came through.

    Frames of installed packages count only where there are no others, and only with ``installed``;
    empty without any frame.
    """
    inner = own = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if _is_users(name):
            inner = f"{name}:{line}"
            if _is_module(name) or not any(part in name for part in _INSTALLED):
                own = inner
    return own or (inner if installed else "")


def _is_users(name: str) -> bool:
    return (_is_module(name) or not name.startswith(_OURS)) and not name.startswith("<frozen")


def _is_module(name: str) -> bool:
    return name.startswith(_MODULES)
