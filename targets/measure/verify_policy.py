"""Which candidates' results are compared with the unscheduled program's."""

from __future__ import annotations

import math
from typing import Any, Literal

from schedlang.errors import TargetError

Verify = bool | Literal["all"]

# The first few show at once that a space computes something else; later only what may win counts.
_ALWAYS = 4
_FACTOR = 1.2


def check_verify(verify: Any) -> None:
    """TargetError for what is no value of ``verify``."""
    if verify not in (True, False, "all"):
        raise TargetError(f"verify={verify!r}; choose True, False or 'all'")


def verify_factor(verify: Verify, measured: int) -> float | None:
    """After ``measured`` candidates that work, those are verified whose latency is at most so many
    times the best; None for none.
    """
    if verify is False:
        return None
    return math.inf if verify == "all" or measured < _ALWAYS else _FACTOR
