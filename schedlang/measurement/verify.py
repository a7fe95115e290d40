"""Values of ``verify``: which results a call compares. NumPy is not imported: commands check it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any


def wrong_verify(verify: Any) -> str:
    """Return what to give instead of an invalid value of ``verify``; empty for a valid one."""
    if isinstance(verify, bool) or (isinstance(verify, str) and verify == "all"):
        return ""
    known = {"all": "'all'", "true": "True", "false": "False"}
    close = get_close_matches(verify.lower(), known, 1) if isinstance(verify, str) else []
    hint = f"; did you mean {known[close[0]]}?" if close else ""
    return f"choose True, False or 'all'{hint}"
