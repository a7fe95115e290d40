"""What the measurer does not see through yet: the name of each program, and why.

A test of each is expected to fail, so that this list cannot outlive the hole.
"""

from __future__ import annotations

_MIDDLE = "an element in the middle of a long vector decides by chance only"

OPEN: dict[str, str] = {
    "maximum of a vector without one in the middle": _MIDDLE,
    "any of a vector without one in the middle": _MIDDLE,
}
