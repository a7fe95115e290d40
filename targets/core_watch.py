"""How much of the cores of this machine other programs use, as Linux counts it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from schedlang.measurement.disturbance import CoreUse
from schedlang.targets import host

# A clock of this many ticks a second counts the times in these files: shorter stretches say little.
_LEAST_SECONDS = 0.1
# Part of the time that readings may take.
_PART = 0.01


class _Ticks(NamedTuple):
    """Ticks of the cores since the system started: running programs, and taken by the host."""

    busy: int
    idle: int
    stolen: int


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
        root: Path = Path("/proc"),
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

    def _read(self) -> tuple[_Ticks, int] | None:
        try:
            return self._of_cores(), sum(self._own())
        except (OSError, ValueError, IndexError):
            return None

    def _of_cores(self) -> _Ticks:
        names = {f"cpu{cpu}" for cpu in self._cpus}
        found = []
        for line in (self._root / "stat").read_text().splitlines():
            name, *numbers = line.split()
            if name in names:
                user, nice, system, idle, wait, hard, soft, stolen = map(int, numbers[:8])
                found.append((user + nice + system + hard + soft, idle + wait, stolen))
        if len(found) != len(names):
            raise ValueError("the system tells nothing of some cores")
        return _Ticks(*map(sum, zip(*found, strict=True)))

    def _own(self) -> Iterator[int]:
        """Give the ticks of this process and its descendants, also of those that have ended."""
        processes = dict(self._processes())
        children: dict[int, list[int]] = {}
        for number, (parent, _) in processes.items():
            children.setdefault(parent, []).append(number)
        left = [self._process]
        if self._process not in processes:
            raise ValueError("the system does not tell about this process")
        while left:
            number = left.pop()
            yield processes[number][1]
            left += children.get(number, ())

    def _processes(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Give the number, the parent and the ticks of each process."""
        for name in os.listdir(self._root):
            # A process may end meanwhile.
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    text = (self._root / name / "stat").read_bytes()
                    # Its name, in brackets, may hold anything.
                    fields = text.rpartition(b")")[2].split()
                    yield int(name), (int(fields[1]), sum(map(int, fields[11:15])))
