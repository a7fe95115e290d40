"""The adaptive limits of builds: multiples of the median build's time, and of its code's size."""

from __future__ import annotations

import math
from bisect import insort

from schedlang.errors import TargetError

# With fewer builds the median says little, and no shorter limit is worth a worker: giving up kills
# it, and a new one may take some seconds to start.
_FEWEST = 4
# Sizes are exact, and code that is far larger than these few takes most of a short run to build.
_FEWEST_SIZES = 3
_LEAST_SECONDS = 5.0
# Code that is smaller takes LLVM a second or two, see `code_size`. Larger code, an eighth of 2,424
# recorded programs of TBG, took 0.7 of their time; the fastest of it took 1.12 times the best.
_LEAST_SIZE = 8_000


class BuildTimeout:
    """Limits the processor time of a build to a multiple of the median build.

    A program that takes far longer than most is huge straight-line code, which LLVM takes more than
    linear time for, and which is slow when it is built: it does not fit in the instruction caches.

    Parameters
    ----------
    most: seconds of wall time that no build may exceed.
    factor: multiple of the median build time; infinity disables the limit by the median. Measurers
        call it ``slow_build``.

    Raises ``TargetError`` for a factor that half of the builds would exceed.
    """

    def __init__(self, most: float, factor: float) -> None:
        if not factor > 1:
            raise TargetError(f"slow_build={factor}; give more than 1, or math.inf")
        self._most = most
        self._factor = factor
        self._seconds: list[float] = []
        self._sizes: list[int] = []

    def note(self, seconds: float, size: int = 0) -> None:
        """Take in the time of a build that succeeded, in seconds, and its code's size, if known."""
        insort(self._seconds, seconds)
        if size:
            insort(self._sizes, size)

    def forget(self) -> None:
        """Forget all builds: how long those of one workload take says nothing about another."""
        self._seconds.clear()
        self._sizes.clear()

    @property
    def median(self) -> float | None:
        """Median of the build times in seconds; None while too few are known."""
        known = len(self._seconds)
        return self._seconds[known // 2] if known >= _FEWEST else None

    @property
    def most(self) -> float:
        """Seconds of wall time after which to give up a build."""
        return self._most

    @property
    def limit(self) -> float:
        """Seconds of processor time after which to give up a build."""
        median = math.inf if self.median is None else self.median
        return min(self._most, max(_LEAST_SECONDS, self._factor * median))

    def most_size(self, *, postponed: bool) -> int | None:
        """Return the size of code above which not to begin a build; None for no limit.

        While too few sizes are known, all large ones are ``postponed``, and then built.
        """
        if math.isinf(self._factor):
            return None
        if len(self._sizes) < _FEWEST_SIZES:
            return None if postponed else _LEAST_SIZE
        # LLVM's time grows in proportion to the size, or faster.
        return max(_LEAST_SIZE, round(self._factor * self._median_size))

    @property
    def _median_size(self) -> int:
        return self._sizes[len(self._sizes) // 2]

    def describe_size(self, size: int) -> str:
        """Describe why code of this size was not built, for a message."""
        return (
            f"not built: its code has the size {size} (loads and stores after unrolling), where "
            f"that of half of them is {self._median_size}, and the limit for builds "
            f"{self.most_size(postponed=True)}"
        )

    def describe(self, seconds: float = 0.0) -> str:
        """Describe the limit that a build of ``seconds`` (wall time) exceeded, for a message."""
        if self.median is None or max(seconds, self.limit) >= self._most:
            return f"not done within {self._most:g} s"
        return (
            f"not done within {self.limit:.3g} s of processor time, where half of them take "
            f"{self.median:.2g} s"
        )
