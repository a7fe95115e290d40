"""What the measurer does not see through yet: the name of each program, and why.

A test of each is expected to fail, so that this list cannot outlive the hole.
"""

from __future__ import annotations

OPEN: dict[str, str] = {}
