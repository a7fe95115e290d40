"""Which candidates' results are compared with the unscheduled program's, and in how many calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Repeats:
    """How many more calls of a program are compared, after one that was right.

    A program that is wrong in one call of ``n``, independently, is accepted with the probability
    ``(1 - 1/n) ** calls``.

    Attributes
    ----------
    least, most: bounds on the number of calls, on all draws together.
    seconds: after this time, ``least`` calls are enough.
    longest: no call starts after this time, in seconds, however few there were; nor does any where
        one on each draw takes longer.
    again: a program has been verified before: memory that it does not write holds other contents
        than then.
    """

    least: int
    most: int
    seconds: float
    longest: float
    again: bool = False

    def calls(
        self, draws: int, latency: float, clock: Callable[[], float] = time.perf_counter
    ) -> Iterator[None]:
        """Yield once for each call on one of ``draws`` draws; a call takes ``latency`` seconds."""
        if latency * draws > self.longest:
            return
        start = clock()
        for done in range(-(-self.most // draws)):
            elapsed = (clock() - start) * draws
            if elapsed >= self.longest or (elapsed >= self.seconds and done * draws >= self.least):
                return
            yield


ONCE = Repeats(least=1, most=1, seconds=0.0, longest=0.015)
"""For a program whose calls are proven to give the same results."""
REPEATS = Repeats(least=16, most=200, seconds=0.005, longest=0.015)
"""For a candidate that may become the best."""
FINAL_REPEATS = Repeats(least=20, most=200, seconds=0.05, longest=0.2, again=True)
"""For a final candidate; results of the calls that time it are compared besides."""
REMOTE_FINAL_REPEATS = Repeats(least=20, most=200, seconds=0.3, longest=1.0, again=True)
"""For a final candidate on a server, where only these are compared."""
