"""How long to wait for a build, by what the others took."""

from __future__ import annotations

import math
from bisect import insort

from schedlang.errors import TargetError

# Before so many are known the median says little, and nothing shorter than this is worth a worker:
# giving up kills it, and a new one takes some seconds to start.
_KNOWN = 8
_LEAST_SECONDS = 5.0


class Patience:
    """Gives up on builds that take far longer than most.

    Such a program is huge straight-line code, which LLVM takes more than linear time for, and which
    is slow when it is built: it does not fit in the caches of instructions.

    Parameters
    ----------
    most: seconds for any build.
    factor: so many times the median is too long; infinity for never. Measurers call it
        ``slow_build``.

    Raises ``TargetError`` for a factor that half of the builds would exceed.
    """

    def __init__(self, most: float, factor: float) -> None:
        if not factor > 1:
            raise TargetError(f"slow_build={factor}; give more than 1, or math.inf")
        self._most = most
        self._factor = factor
        self._seconds: list[float] = []

    def note(self, seconds: float) -> None:
        """A program was built in so many seconds."""
        insort(self._seconds, seconds)

    @property
    def median(self) -> float | None:
        """Seconds that half of the builds took at most; None while too few are known."""
        known = len(self._seconds)
        return self._seconds[known // 2] if known >= _KNOWN else None

    @property
    def limit(self) -> float:
        """Seconds after which to give up."""
        median = math.inf if self.median is None else self.median
        return min(self._most, max(_LEAST_SECONDS, self._factor * median))

    def describe(self) -> str:
        """What the limit is, for a message."""
        if self.limit == self._most or self.median is None:
            return f"not done within {self._most:g} s"
        return f"not done within {self.limit:.3g} s, where half of them take {self.median:.2g} s"
