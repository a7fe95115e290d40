"""Values of ``verify``: which results a call compares. NumPy is not imported: commands check it."""

from __future__ import annotations

from typing import Any

from schedlang.printed import nearest


def wrong_verify(verify: Any) -> str:
    """Return what to give instead of an invalid value of ``verify``; empty for a valid one."""
    if isinstance(verify, bool) or (isinstance(verify, str) and verify == "all"):
        return ""
    known = {"all": "'all'", "true": "True", "false": "False"}
    hint = nearest(verify.lower(), known, known.__getitem__) if isinstance(verify, str) else ""
    return f"choose True, False or 'all'{hint}"
