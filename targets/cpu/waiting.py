"""How long the threads of this process waited for a core, as Linux counts it."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

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

    def __init__(self, root: Path = Path("/proc/self/task")) -> None:
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
