"""Time: the clock of a session, wall time by activity, and spans of what a worker did."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

# -- The clock of a session: all that a run does by the time asks it ------------------------------


class Clock:
    """The system's clock. A simulator derives from it, and tells another time.

    A measurer that has an attribute ``clock`` gives it to the session that measures with it.
    """

    def now(self) -> float:
        """Return seconds since some moment; they never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; ``seconds`` says how long."""
        time.sleep(seconds)


SYSTEM = Clock()


def clock_of(measurer: Any) -> Clock:
    """Return the clock that a measurer tells; the system's where it tells none."""
    found = getattr(measurer, "clock", None)
    return found if isinstance(found, Clock) else SYSTEM


# -- Wall time by activity ------------------------------------------------------------------------


class Stopwatch:
    """Adds up wall time by activity. While an inner activity runs, the outer one's time stands.

    Attributes
    ----------
    clock: tells the time; the session sets it for what runs within it.
    seconds: of each activity so far.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def timing(self, activity: str) -> Iterator[None]:
        """Count the ``with`` block as this activity."""
        self._note()
        self._running.append(activity)
        try:
            yield
        finally:
            self._note()
            self._running.pop()

    def add(self, activity: str, seconds: float) -> None:
        """Count seconds that have passed since the latest activity began as this one's."""
        self.seconds[activity] += seconds
        if self._running:
            self.seconds[self._running[-1]] -= seconds

    def take(self) -> dict[str, float]:
        """Return the seconds so far, and begin again at zero."""
        taken, self.seconds = dict(self.seconds), defaultdict(float)
        return taken

    def _note(self) -> None:
        now = self.clock.now()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


# -- Spans of wall time: what a worker, or a run, did and when ------------------------------------

# Most seconds that the wall clock and the monotonic one differ within a phase, unless one was set.
_CLOCKS_DIFFER = 1e-3


class Phase(NamedTuple):
    """A span of wall time.

    ``activity`` is ``"build"``, ``"run"`` or ``"verify"`` of a trial, and ``"start"`` (workers
    start, the unscheduled program is measured), ``"search"`` or ``"finals"`` of a run. ``begin``
    and ``end`` are in seconds since 1970 (UTC). ``worker`` is the number of the worker that did it
    where that is not the trial's own: one process builds for a GPU and another one runs.
    """

    activity: str
    begin: float
    end: float
    worker: int | None = None

    def of_host(self, number: int) -> Self:
        """Return it as that of a host, numbered from 1: its workers have other numbers."""
        if self.worker is None:
            return self
        return self._replace(worker=worker_of_host(number, self.worker))


WORKERS_OF_A_HOST = 1000
"""Where several hosts measure, the workers of host k are numbered from k times this, k from 1."""


def worker_of_host(host: int, worker: int) -> int:
    """Return the number of a host's worker; ``host`` is the host's number, from 1."""
    return host * WORKERS_OF_A_HOST + worker


def worker_name(number: int) -> str:
    """Return what a worker is called: ``worker 3``, or ``host 2, worker 3``."""
    host, worker = divmod(number, WORKERS_OF_A_HOST)
    return f"host {host}, worker {worker}" if host else f"worker {worker}"


class PhaseLog:
    """Notes one activity after the other, on the wall clock. To enter the present one is no change.

    A phase is as long as ``clock`` says, so that setting the system's date changes none.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._done: list[Phase] = []
        self._activity = ""
        self._begin = self._since = 0.0

    @property
    def activity(self) -> str:
        """The present one; empty where there is none."""
        return self._activity

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What was noted since ``take``; the present phase ends now."""
        present = (self._present(self._clock.now()),) if self._activity else ()
        return (*self._done, *present)

    def enter(self, activity: str, seconds_ago: float = 0.0) -> None:
        """End the present phase and begin another one; ``""`` begins none."""
        if activity == self._activity:
            return
        since, begin = self._clock.now() - seconds_ago, time.time() - seconds_ago
        if self._activity:
            since = max(since, self._since)
            ended = self._present(since)
            self._done.append(ended)
            # The two clocks differ a little, and a phase begins when the one before it ends.
            begin = ended.end if begin - ended.end < _CLOCKS_DIFFER else begin
        self._activity, self._begin, self._since = activity, begin, since

    def take(self) -> tuple[Phase, ...]:
        """End the present phase; return all phases since the last call, oldest first."""
        self.enter("")
        done, self._done = self._done, []
        return tuple(done)

    def _present(self, now: float) -> Phase:
        return Phase(self._activity, self._begin, self._begin + now - self._since)


def check_phases(phases: Iterable[Any]) -> tuple[Phase, ...]:
    """Return phases as they are stored; ValueError for a value that is none."""
    return tuple(map(_checked, phases))


def _checked(given: Any) -> Phase:
    try:
        phase = Phase(*given)
        activity, begin, end, worker = phase
        # Databases hold many of them.
        if type(begin) is type(end) is float and 0.0 <= begin <= end < math.inf:
            if type(activity) is str and activity and worker is None:
                return phase
        phase = Phase(activity, float(begin), float(end), worker)
    except TypeError as error:
        raise ValueError(f"{given!r} is no phase; give Phase(activity, begin, end)") from error
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{given!r} is no phase: {error}") from error
    if not (isinstance(activity, str) and activity):
        raise ValueError(f"{given!r} is no phase: its activity is no text")
    if not (math.isfinite(phase.begin) and math.isfinite(phase.end)):
        raise ValueError(f"{given!r} is no phase: begin and end are seconds since 1970")
    if phase.end < phase.begin:
        raise ValueError(f"{given!r} is no phase: it ends before it begins")
    if worker is not None:
        check_worker(worker)
    return phase


def check_worker(number: Any) -> None:
    """ValueError for what is no number of a worker."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"worker={number!r}; workers are numbered from 0")
