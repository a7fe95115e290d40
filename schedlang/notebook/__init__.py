"""What notebooks show of results, traces, spaces and networks: small HTML that needs nothing else.

Each kind of value has a function ``<kind>_html`` in a file of this folder. A class names its kind
by ``_repr_html_ = html_method("trace")`` (``schedlang/printed.py``); the file is imported when the
first value of one of its kinds is shown.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["html_of"]

_KINDS = {
    "results": ("result", "comparison", "explanation"),
    "programs": ("program", "record"),
    "traces": ("trace", "sketches", "space"),
    "networks": ("network", "network_result", "compiled_network"),
}
"""The kinds of values by the file that shows them."""


def html_of(kind: str, value: object) -> str | None:
    """Return a value of a kind as HTML.

    None where a notebook shall show its text instead, also for a value that cannot be shown: an
    error would hide the text too.
    """
    [file] = (file for file, kinds in _KINDS.items() if kind in kinds)
    write = getattr(import_module(f"{__name__}.{file}"), f"{kind}_html")
    try:
        shown: str | None = write(value)
    except Exception:
        return None
    return shown
