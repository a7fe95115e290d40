"""Which candidates' results are compared with the unscheduled program's."""

from __future__ import annotations

import math

from schedlang.measurement.problem import Verify

# The first few reveal at once a space with wrong results; later, only possible winners matter.
_ALWAYS = 4
_FACTOR = 1.2


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
