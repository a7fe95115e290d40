"""Who uses the cores of this machine, as Linux counts it.

``CoreWatch`` says how much of the cores other programs use while schedlang measures.
``ThreadWaits`` says how long the threads of this process waited for a core.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Collection
from pathlib import Path

from schedlang import host
from schedlang.measurement.disturbance import CoreUse

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
