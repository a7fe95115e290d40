"""Programs are timed again while something else disturbs the machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self, TypeVar

from schedlang.measurement import Status
from schedlang.targets.worker.fault import Fault


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
