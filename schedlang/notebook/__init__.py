"""What notebooks show of results, traces, spaces and networks: small HTML that needs nothing else.

Each file here is a kind of value, and has ``html_of``. A class names its kind by
``_repr_html_ = html_method("trace")`` (``schedlang/printed.py``); the file is imported when the
first value of its kind is shown.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["html_of"]


def html_of(kind: str, value: object) -> str | None:
    """Return a value as HTML by ``schedlang/notebook/<kind>.py``.

    None where a notebook shall show its text instead, also for a value that cannot be shown: an
    error would hide the text too.
    """
    writer = import_module(f"{__name__}.{kind}")
    try:
        shown: str | None = writer.html_of(value)
    except Exception:
        return None
    return shown
