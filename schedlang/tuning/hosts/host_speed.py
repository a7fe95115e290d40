"""How fast hosts are: who is not as fast as the others is set apart, who takes long is late.

``machine_rate`` is read on each host, and comes with its replies. On the driver, ``Judge``
compares the rates of hosts, and ``UsualTimes`` knows what orders take.
"""

from __future__ import annotations

import statistics
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from schedlang.errors import HostWarning
from schedlang.measurement.clock import SYSTEM
from schedlang.tuning.hosts.messages import GivenOrder

# -- Hosts beside each other ----------------------------------------------------------------------

# A rate differs from the others' if it is this factor from their median, and this many times what
# they differ from it themselves.
_FACTOR = 1.3
_SPREADS = 5.0
# Number of other hosts that it takes to judge one, and of its readings in a row: a machine may be
# disturbed for a moment.
_OTHERS = 3
_READINGS = 3


@dataclass
class _Seen:
    """What is known of a host: its latest rate, and how many readings in a row were off."""

    rate: float = 0.0
    off: int = 0


class Judge:
    """What hosts say of themselves.

    Attributes
    ----------
    apart: hosts that get no more orders, with the reason.
    refused: hosts that have refused an order, with the reason.
    wrong: hosts that have sent a reply that is not stored, with what was wrong with the first one;
        under the empty name those of which no name could be read.
    """

    def __init__(self) -> None:
        self.apart: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.wrong: dict[str, str] = {}
        self._seen: dict[str, _Seen] = {}

    @property
    def names(self) -> list[str]:
        """The hosts that have carried out an order, in the order in which they were first met."""
        return list(self._seen)

    def number(self, name: str) -> int:
        """Return the number of a host, from 1."""
        return list(self._seen).index(name) + 1

    def see(self, name: str, rate: float) -> None:
        """Take in a reply of a host that is as fast as this, in operations a second."""
        seen = self._seen.setdefault(name, _Seen())
        if rate <= 0 or rate == seen.rate:
            return  # the same reading comes with several replies
        seen.rate = rate
        said = self._off(name)
        seen.off = seen.off + 1 if said else 0
        if not said:
            self.apart.pop(name, None)
        elif seen.off >= _READINGS and name not in self.apart:
            self.apart[name] = said
            warnings.warn(f"host {name} is set apart: {said}", HostWarning, stacklevel=2)

    def refuse(self, name: str, message: str, rate: float) -> None:
        """Take in that a host has refused an order; one that was set apart may be as others now."""
        if name in self.apart:
            self.see(name, rate)
        else:
            self.refused[name] = message

    def blame(self, name: str, message: str) -> None:
        """Take in that a host has sent a wrong reply; its first one is worth a warning."""
        if name not in self.wrong:
            self.wrong[name] = message
            sender = f"host {name}" if name else "a host"
            warnings.warn(
                f"a reply of {sender} is not stored: {message}; another host gets its order, where "
                "there is one",
                HostWarning,
                stacklevel=2,
            )

    def forgive(self) -> None:
        """Set nobody apart: there is nobody else."""
        for name in self.apart:
            self._seen[name].off = 0
        self.apart.clear()

    def _off(self, name: str) -> str:
        """Return in what a host differs from the others; empty where it does not."""
        rate = self._seen[name].rate
        others = [
            seen.rate
            for other, seen in self._seen.items()
            if other != name and seen.rate and other not in self.apart
        ]
        if len(others) < _OTHERS:
            return ""
        middle = statistics.median(others)
        spread = statistics.median(max(one / middle, middle / one) - 1.0 for one in others)
        if max(rate / middle, middle / rate) <= max(_FACTOR, 1.0 + _SPREADS * spread):
            return ""
        return (
            f"its rate is {rate / middle:.2f} of the median of {len(others)} others "
            f"({rate / 1e9:.1f} and {middle / 1e9:.1f} GFLOP/s)"
        )


# -- What orders take -----------------------------------------------------------------------------

_REMEMBERED = 64
# What is expected of a task: the median of its orders. Of one that none has come back of, what nine
# of ten orders take at most.
_OF_TASK, _OF_OTHERS = 0.5, 0.9


# The seconds of an order, and its size.
_Taken = tuple[float, int]


class UsualTimes:
    """Seconds that the latest orders took, by what they were for and by their tasks."""

    def __init__(self) -> None:
        self._of_task: dict[tuple[str, str], deque[_Taken]]
        self._of_task = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._of_all: dict[str, deque[_Taken]]
        self._of_all = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def see(self, order: GivenOrder, seconds: float) -> None:
        """Take note of what an order took."""
        taken = seconds, order.size
        self._of_task[order.what, order.task_key].append(taken)
        self._of_all[order.what].append(taken)

    def expected(
        self, under_way: Sequence[tuple[GivenOrder, float]]
    ) -> Callable[[GivenOrder], float | None]:
        """Return what says how many seconds an order should take; None while nothing is known.

        ``under_way`` are orders with the seconds up to now: which tasks are slow is not known until
        they come back.
        """
        so_far: dict[str, list[_Taken]] = defaultdict(list)
        for order, seconds in under_way:
            so_far[order.what].append((seconds, order.size))

        @cache  # many hosts have slices of few tasks
        def seconds_of(what: str, task: str, size: int) -> float | None:
            if not self._of_all[what]:
                return None
            taken, part = [*self._of_task[what, task]], _OF_TASK
            if not taken:
                taken, part = [*self._of_all[what], *so_far[what]], _OF_OTHERS
            # A smaller slice may take as long, as it begins with restoring the search.
            seconds = sorted(one * max(size / other, 1.0) for one, other in taken)
            return seconds[int(len(seconds) * part)]

        return lambda order: seconds_of(order.what, order.task_key, order.size)


# -- How fast a machine is now --------------------------------------------------------------------

# A matrix product of this size takes about a millisecond on a core.
_SIZE = 256
_REPEATS = 25
# Seconds between two readings: a machine may be busy for a while.
_EVERY = 30.0

_latest = (-_EVERY, 0.0)


def machine_rate() -> float:
    """Return operations a second of a matrix product of NumPy's; read at most every 30 seconds.

    The fastest of some calls counts. It says whether two machines of one kind are equally fast.
    """
    global _latest
    if SYSTEM.now() - _latest[0] >= _EVERY:
        array = np.ones((_SIZE, _SIZE), "float32")
        fastest = min(_seconds(array) for _ in range(_REPEATS))
        _latest = SYSTEM.now(), 2.0 * _SIZE**3 / fastest
    return _latest[1]


def _seconds(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    began = SYSTEM.now()
    np.dot(array, array)
    return SYSTEM.now() - began
