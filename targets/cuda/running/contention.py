"""Whether something disturbed the GPU while a program was timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from schedlang.measurement import Status
from schedlang.targets.cuda.running.backend import CUDABackend
from schedlang.targets.cuda.running.neighbours import Neighbours
from schedlang.targets.worker.fault import Fault

_Found = TypeVar("_Found")

# A known piece of work may take so much longer than at its fastest.
_SLOWER = 1.3
# Looks at the known work, of which the fastest counts: one may meet a single disturbance.
_LOOKS = 3
_TRIES = 3
_PAUSE_SECONDS = 0.3


class Contention:
    """Times a program again while something else disturbs the GPU.

    Two signs: NVIDIA's management library names another process, or clocks that were lowered
    meanwhile; and a known piece of work takes longer, right after the program, than it ever did.
    """

    def __init__(
        self,
        backend: CUDABackend,
        neighbours: Neighbours,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._backend = backend
        self._neighbours = neighbours
        self._sleep = sleep
        self._fastest = math.inf

    def undisturbed(self, measure: Callable[[], _Found]) -> _Found:
        """Return what ``measure`` returns when nothing disturbs it.

        Raises ``Fault`` (SUSPICIOUS_TIME) when it was disturbed three times: the times say nothing.
        """
        if math.isinf(self._fastest):
            self._fastest = self._look()
        for tried in range(_TRIES):
            if tried:
                self._sleep(_PAUSE_SECONDS)
            moment, slow = self._neighbours.now(), self._neighbours.slowdown()
            found = measure()
            reason = self._disturbance(moment, slow)
            if reason is None:
                return found
        raise Fault(Status.SUSPICIOUS_TIME, f"{reason}; {_TRIES} times in a row, so no time counts")

    def _disturbance(self, moment: int, slow: str | None) -> str | None:
        seconds = self._look()
        self._fastest = min(self._fastest, seconds)
        if seconds > _SLOWER * self._fastest:
            return (
                f"the GPU took {seconds * 1e6:.0f} us for work that it does in "
                f"{self._fastest * 1e6:.0f} us: something else uses it, or its clocks are lower"
            )
        if (reason := self._neighbours.busy_since(moment)) is not None:
            return reason
        # Where it was slow before, it is so all the time, and its clocks are steady.
        now = self._neighbours.slowdown()
        return None if now == slow else now

    def _look(self) -> float:
        """Return the seconds of the known work."""
        with self._backend.running():
            return min(self._backend.fill_seconds() for _ in range(_LOOKS))
