"""What is beyond the limits of verification: the name of each program, and why.

A test of each is expected to fail, so that this list cannot outlive the hole.
"""

from __future__ import annotations

_MIDDLE = "it shows only on inputs on which one of many elements is the largest"

OPEN: dict[str, str] = {
    "maximum of a vector without one in the middle": _MIDDLE,
    "any of a vector without one in the middle": "it shows only where one of many conditions holds",
    "maximum of a channel without its corner": _MIDDLE,
}
BY_CHANCE = frozenset({"maximum of a channel without its corner"})
"""Those of them that some draws show."""
