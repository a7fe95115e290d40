"""Programs are timed again while something else disturbs the machine.

``Contention`` takes times again as long as a sign of other work lasts. ``KnownWork`` is such a
sign: work that always takes equally long, unless something disturbs the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

from schedlang.measurement import Status
from schedlang.targets.worker.fault import Fault

# -- Timing again ---------------------------------------------------------------------------------


class Slowdown(NamedTuple):
    """Something disturbed the machine.

    Attributes
    ----------
    reason: what was seen.
    factor: programs took about this many times as long; infinite where nobody knows.
    """

    reason: str
    factor: float = math.inf


class Sign(Protocol):
    """Tells whether something disturbs the machine."""

    def begin(self) -> Slowdown | None:
        """Watch from here; return what disturbs the machine already."""
        ...

    def end(self) -> Slowdown | None:
        """Return what has disturbed the machine since ``begin``; None if nothing has."""
        ...


class Timed(Protocol):
    """Samples of a program: a ``Sample`` or a ``Timing``."""

    @property
    def fastest(self) -> float:
        """Its fastest sample, in seconds per call."""
        ...

    def judged_quiet(self) -> Self:
        """Return it as undisturbed, unless more is known of its samples."""
        ...

    def slowed(self, factor: float) -> Self:
        """Return it as disturbed: the program alone takes at least a ``factor``-th of it."""
        ...

    def after(self, discarded: Sequence[Self]) -> Self:
        """Return it with the samples that were discarded before as disturbed ones."""
        ...


_Found = TypeVar("_Found", bound=Timed)


def always(found: object, factor: float) -> bool:
    """Time every program again."""
    return True


class Contention:
    """Times a program again while signs say that something else disturbs the machine.

    A disturbance that outlasts the tries is taken to last: until it has ended, programs are timed
    once and are disturbed.

    Parameters
    ----------
    signs: what tells; the first one that finds something has the word. Without any, programs are
        timed once, and not judged.
    tries: number of times that a program is timed at most.
    pause_seconds: time between two of them.
    refuses: make all tries, each time, and raise ``Fault`` (SUSPICIOUS_TIME) where they do not
        help.
    """

    def __init__(
        self,
        signs: Sequence[Sign],
        *,
        tries: int = 3,
        pause_seconds: float = 0.0,
        refuses: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._signs = signs
        self._tries = tries
        self._pause_seconds = pause_seconds
        self._refuses = refuses
        self._sleep = sleep
        self._clock = clock
        self._lasts = False

    def undisturbed(
        self,
        measure: Callable[[], _Found],
        worth: Callable[[_Found, float], bool] = always,
        patience_seconds: float = math.inf,
    ) -> _Found:
        """Return what ``measure`` returns when nothing disturbs it.

        ``worth(found, factor)`` says whether a program that was slowed down by this factor is worth
        another try. None starts after ``patience_seconds``. Where the tries do not help, the
        fastest of them is returned as disturbed.
        """
        if not self._signs:
            return measure()
        start, found = self._clock(), list[_Found]()
        while True:
            if found and self._pause_seconds:
                self._sleep(self._pause_seconds)
            before = [sign.begin() for sign in self._signs]
            timed = measure()
            slow = next(filter(None, (*(sign.end() for sign in self._signs), *before)), None)
            if slow is None:
                self._lasts = False
                return timed.judged_quiet().after(found)
            found.append(timed)
            exhausted = len(found) == self._tries
            if not self._refuses:
                exhausted = exhausted or self._clock() - start >= patience_seconds
                if self._lasts or not worth(timed, slow.factor):
                    break
            if exhausted:
                break
        if self._refuses:
            often = f"{len(found)} times in a row: all samples are disturbed, so no time counts"
            raise Fault(Status.SUSPICIOUS_TIME, f"{slow.reason}; {often}")
        self._lasts = self._lasts or exhausted
        best = min(found, key=lambda one: one.fastest)
        return best.slowed(slow.factor).after([one for one in found if one is not best])


# -- Work that always takes equally long ----------------------------------------------------------

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
