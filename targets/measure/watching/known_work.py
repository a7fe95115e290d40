"""Work that always takes equally long, unless something disturbs the machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from schedlang.targets.measure.watching.contention import Slowdown

# Looks at a piece, of which the fastest counts: one may meet a single disturbance.
_LOOKS = 3


@dataclass(slots=True)
class Piece:
    """A piece of work.

    Attributes
    ----------
    name: what it is; empty where there is only one.
    seconds: does it, and returns how long that took.
    slower: it may take this many times its best.
    best: its best, in seconds; infinite before it was done.
    """

    name: str
    seconds: Callable[[], float]
    slower: float
    best: float = math.inf

    def look(self, machine: str) -> Slowdown | None:
        """Do it; return how it was disturbed, None if it was not."""
        seconds = min(self.seconds() for _ in range(_LOOKS))
        self.best = min(self.best, seconds)
        if seconds <= self.slower * self.best:
            return None
        kind = f"{self.name} work" if self.name else "work"
        return Slowdown(
            f"{machine} took {seconds * 1e6:.0f} us for {kind} that it does in "
            f"{self.best * 1e6:.0f} us: something else uses it, or its clocks are lower",
            seconds / self.best,
        )


class KnownWork:
    """Times known work after programs, against the best it ever took.

    This shows what the system does not tell: other work on the same memory, caches or core, and a
    lower clock.

    Parameters
    ----------
    pieces: of the work.
    machine: what messages call the machine.
    running: prepares this process for running programs.
    confirmed: a piece that takes longer is done once more, and counts if it does so again.
    part: part of the time that the work may take. Between two looks, the first one stands.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        machine: str,
        running: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        confirmed: bool = False,
        part: float = math.inf,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._pieces = pieces
        self._machine = machine
        self._running = running
        self._confirmed = confirmed
        self._part = part
        self._clock = clock
        self._last: Slowdown | None = None
        self._due = -math.inf

    def begin(self) -> Slowdown | None:
        """Look whether a disturbance has ended; the very first time, learn the best."""
        if self._last is not None or math.isinf(self._due):
            self._look()
        return self._last

    def end(self) -> Slowdown | None:
        """Return how the work is disturbed now; None if it is not."""
        self._look()
        return self._last

    def _look(self) -> None:
        start = self._clock()
        if start < self._due:
            return
        with self._running():
            self._last = self._slowdown()
        end = self._clock()
        self._due = end + (end - start) / self._part

    def _slowdown(self) -> Slowdown | None:
        for piece in self._pieces:
            slow = piece.look(self._machine)
            if slow is not None and self._confirmed:
                slow = piece.look(self._machine)
            if slow is not None:
                return slow
        return None
