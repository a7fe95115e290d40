"""Which candidates' results are compared with the unscheduled program's."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import Any, Literal

Verify = bool | Literal["all"]

# The first few reveal at once a space with wrong results; later, only possible winners matter.
_ALWAYS = 4
_FACTOR = 1.2


def wrong_verify(verify: Any) -> str:
    """Return what to give instead of an invalid value of ``verify``; empty for a valid one."""
    if isinstance(verify, bool) or (isinstance(verify, str) and verify == "all"):
        return ""
    known = {"all": "'all'", "true": "True", "false": "False"}
    close = get_close_matches(verify.lower(), known, 1) if isinstance(verify, str) else []
    hint = f"; did you mean {known[close[0]]}?" if close else ""
    return f"choose True, False or 'all'{hint}"


def check_verify(verify: Any) -> None:
    """Raise ValueError for an invalid value of ``verify``."""
    if wrong := wrong_verify(verify):
        raise ValueError(f"verify={verify!r}; {wrong}")


class VerifyPolicy:
    """Decides for each candidate whether its results are compared.

    Parameters
    ----------
    verify: True verifies the first few candidates, and those whose latency is at most 1.2 times the
        best; ``"all"`` verifies every one, False disables it.

    Attributes
    ----------
    measured: number of candidates that were measured successfully.
    """

    def __init__(self, verify: Verify) -> None:
        check_verify(verify)
        self.verify = verify
        self.measured = 0

    @property
    def enabled(self) -> bool:
        """Whether any results are compared."""
        return self.verify is not False

    @property
    def factor(self) -> float | None:
        """Verify the next candidate if its latency is at most this multiple of the best.

        None verifies it in no case.
        """
        if self.verify is False:
            return None
        return math.inf if self.verify == "all" or self.measured < _ALWAYS else _FACTOR
