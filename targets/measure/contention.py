"""Other work on the machine: how it is noticed, and when programs are timed again.

``CoreWatch`` says how much of the cores other programs use while schedlang measures.
``ThreadWaits`` says how long the threads of this process waited for a core.
``Contention`` takes times again as long as a sign of other work lasts. ``KnownWork`` is such a
sign: work that always takes equally long, unless something disturbs the machine.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, Self, TypeVar

from schedlang import host
from schedlang.measurement import Status
from schedlang.measurement.disturbance import CoreUse
from schedlang.targets.errors import Fault

# -- Cores that other programs use ----------------------------------------------------------------

# A clock of this many ticks a second counts the times in these files: shorter stretches say little.
_LEAST_SECONDS = 0.1
# Part of the time that readings may take.
_PART = 0.01


class CoreWatch:
    """Reads what other programs than this process and its descendants use of the cores.

    A reading looks at the files of all processes: it takes some milliseconds.

    Parameters
    ----------
    root: the folder of the system's files.
    cpus: the cores; by default those that this process may use.
    process: this process.
    """

    def __init__(
        self,
        root: Path = host.PROCESSES,
        *,
        cpus: Collection[int] | None = None,
        process: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._cpus = frozenset(host.usable_cpus() if cpus is None else cpus)
        self._process = os.getpid() if process is None else process
        self._clock = clock
        self._began = clock()
        self._before = self._read()
        self._latest: CoreUse | None = None
        self._due = self._began

    def recent_use(self) -> CoreUse | None:
        """Return what ``use`` does, or did a while ago: readings take under 1% of the time."""
        if (start := self._clock()) >= self._due:
            self._latest = self.use()
            end = self._clock()
            self._due = end + max((end - start) / _PART, _LEAST_SECONDS)
        return self._latest

    def use(self) -> CoreUse | None:
        """Return what others used since it began; None where the system does not tell."""
        seconds, now = self._clock() - self._began, self._read()
        if self._before is None or now is None or seconds < _LEAST_SECONDS:
            return None
        (ticks, own), (ticks_before, own_before) = now, self._before
        busy, idle, stolen = (new - old for new, old in zip(ticks, ticks_before, strict=True))
        whole = busy + idle + stolen
        if whole <= 0 or min(busy, idle, stolen) < 0:
            return None
        cores = len(self._cpus)
        others = min(max(busy - max(own - own_before, 0), 0), whole)
        return CoreUse(seconds, cores, cores * others / whole, cores * stolen / whole)

    def _read(self) -> tuple[host.CoreTicks, int] | None:
        try:
            ticks, own = host.core_ticks(self._cpus, self._root), self._own()
        except ValueError:  # damaged files
            return None
        return None if ticks is None or own is None else (ticks, own)

    def _own(self) -> int | None:
        """Return the ticks of this process and its descendants, also of those that have ended.

        None where the system does not tell about this process.
        """
        found = dict(host.processes(self._root))
        children: dict[int, list[int]] = {}
        for number, stat in found.items():
            children.setdefault(stat.parent, []).append(number)
        if self._process not in found:
            return None
        own, left = 0, [self._process]
        while left:
            number = left.pop()
            own += found[number].ticks
            left += children.get(number, ())
        return own


# -- Waits of this process's threads --------------------------------------------------------------

_NANO = 1e-9
# Its files hold three numbers: nanoseconds on a core, nanoseconds of waiting for one, and slices.
_MOST_BYTES = 128
# With counters that stand still for so long while programs run, nothing is known.
_STILL_SECONDS = 0.2


class ThreadWaits:
    """Reads how long all threads of this process have waited for a core.

    The files stay open until it is closed, or nobody has it any more. What happened between two
    readings is unknown where a thread ended between them, where files are missing or damaged, and
    where the counters stand still.

    Parameters
    ----------
    root: the folder that has a folder for each thread.
    """

    def __init__(self, root: Path = host.THREADS) -> None:
        self._root = root
        self._files: dict[str, int] = {}
        weakref.finalize(self, _close, self._files)
        self._before: tuple[int, int] | None = None
        self._still = 0.0

    def look_for_threads(self) -> None:
        """Open the files of threads that are new, and close those of threads that have ended."""
        try:
            present = set(os.listdir(self._root))
        except OSError:
            present = set()
        for name in self._files.keys() - present:
            os.close(self._files.pop(name))
        for name in present - self._files.keys():
            try:
                self._files[name] = os.open(self._root / name / "schedstat", os.O_RDONLY)
            except OSError:
                continue

    def begin(self) -> None:
        """Remember the counters: ``waited`` tells what they grow by from here."""
        self._before = self._read()

    def waited(self, seconds: float) -> float | None:
        """Return how long threads have waited since ``begin``, all together, in seconds.

        ``seconds`` is how long a program has run since. None where that is unknown.
        """
        before, now = self._before, self._read()
        if before is None or now is None:
            return None
        # A thread's time on its core is brought up to date a few times in a hundredth of a second.
        self._still = 0.0 if now[0] > before[0] else self._still + seconds
        grown = now[1] - before[1]
        if grown < 0 or self._still > _STILL_SECONDS:
            return None
        return grown * _NANO

    def _read(self) -> tuple[int, int] | None:
        """Return the nanoseconds of all threads on cores, and waiting; None if any is unknown."""
        ran = waited = 0
        try:
            for file in self._files.values():
                numbers = os.pread(file, _MOST_BYTES, 0).split()
                ran += int(numbers[0])
                waited += int(numbers[1])
        except (OSError, ValueError, IndexError):
            return None
        return (ran, waited) if ran else None

    def close(self) -> None:
        """Close the files."""
        _close(self._files)


def _close(files: dict[str, int]) -> None:
    while files:
        os.close(files.popitem()[1])


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
