"""The wall time of a run: its budget, how many candidates fit into it, and the end of late code.

``Budget`` divides the seconds of a call between the search and the finals. ``Pace`` says how many
candidates a run may ask for at a time, by what asking and measuring took so far. ``within`` ends
code of the user's that runs in this process when the seconds of a call are over.
"""

from __future__ import annotations

import ctypes
import math
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.tuning.options import BATCH, wrong_seconds

# -- The budget of a call -------------------------------------------------------------------------

# The samples of all finals get this fraction of a wall-clock budget at most.
_SAMPLES_PART = 0.2
# Where preparing the finalists takes longer, the finals get this fraction at most.
_FINALS_PART = 0.35
# Seconds to end a run after its finals: its result is written down, its workers are killed.
_ENDING = 1.0
# A rest that is a smaller fraction of a wall-clock budget is not told.
_SHORT = 0.02


def describe_trials(done: int, wanted: int) -> str:
    """Say that the trials that were asked for are done; earlier calls may have made more."""
    trials = f"{done} trial{'' if done == 1 else 's'}"
    return trials if done <= wanted else f"{trials}; {wanted} were asked for"


class FinalsPlan(NamedTuple):
    """What the finals of a run would take if they began now, in seconds.

    Attributes
    ----------
    preparation: to build, time and verify the finalists, as long as that took in the search.
    samples: for their samples; finals with less time take fewer.
    """

    preparation: float
    samples: float


class Budget:
    """The wall time of one call; it counts from the moment the object is made.

    Parameters
    ----------
    seconds: wall-clock budget of the call; None for no limit. ValueError unless positive.
    clock: tells the time to all that the call does.

    Attributes
    ----------
    clock: as given.
    seconds: the budget, infinite without a limit.
    earlier: seconds of the budget that earlier calls of the same run have used.
    measured: number of candidates measured in this call.
    """

    def __init__(
        self,
        seconds: float | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        if seconds is not None and (wrong := wrong_seconds(seconds)):
            raise ValueError(f"seconds={seconds!r}; {wrong}")
        self.clock = clock
        self._started = self.clock.now()
        self.seconds = math.inf if seconds is None else float(seconds)
        self.earlier = 0.0
        self.measured = 0
        self._plans: list[Callable[[], FinalsPlan]] = []
        self._spent = {"search": 0.0, "measure": 0.0, "finals": 0.0}

    def restart(self, used: float) -> None:
        """Begin again now; earlier calls have used ``used`` seconds."""
        self._started, self.earlier, self.measured = self.clock.now(), used, 0
        self._spent = dict.fromkeys(self._spent, 0.0)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock.now() - self._started

    @property
    def used(self) -> float:
        """Seconds since the start, plus those of earlier calls."""
        return self.earlier + self.elapsed

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.seconds < math.inf

    @property
    def end(self) -> float:
        """When the seconds are over, by the clock; infinite without a limit."""
        return self._started + self.seconds - self.earlier

    @property
    def left(self) -> float:
        """Seconds until then; negative afterwards."""
        return self.end - self.clock.now()

    def plan_finals(self, plan: Callable[[], FinalsPlan]) -> None:
        """Keep time for the finals of one more run; ``plan`` says what they would take now."""
        self._plans.append(plan)

    def search_deadline(self, finals: bool) -> float:
        """Return when to stop measuring, by the clock: time for the planned finals is left.

        It changes with what is measured: programs that take long to build leave less time.
        """
        return self.end - (self._kept if finals and self.limited else 0.0)

    def describe_end(self, finals: bool) -> str:
        """Say that the time for the search is over, and that the finals have the rest, if any."""
        if finals and self.left > _SHORT * self.seconds:
            used = round(self.used, 1)
            return f"{used:g} of {self.seconds:g} s are over; the rest is kept for the finals"
        return f"{self.seconds:g} s are over"

    @property
    def _kept(self) -> float:
        plans = [plan() for plan in self._plans]
        preparation = _ENDING + sum(plan.preparation for plan in plans)
        samples = sum(plan.samples for plan in plans)
        return max(
            min(preparation + samples, _SAMPLES_PART * self.seconds),
            min(preparation, _FINALS_PART * self.seconds),
        )

    @property
    def finals_seconds(self) -> float:
        """Seconds left for finals; 0 or less when there is no time."""
        return self.left - _ENDING

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Add the time inside to ``search``, ``measure`` or ``finals``."""
        started = self.clock.now()
        try:
            yield
        finally:
            self._spent[part] += self.clock.now() - started

    def split(self, measured: Mapping[str, float], model: float) -> dict[str, float]:
        """Return the seconds of each part; they add up to ``elapsed``.

        ``measured`` splits part of ``measure`` by activity, as the measurer names it; ``model`` is
        the part of ``search`` that cost models took.
        """
        parts = {
            "search": self._spent["search"] - model,
            "model": model,
            **measured,
            "finals": self._spent["finals"],
        }
        parts["measure"] = self._spent["measure"] - sum(measured.values())
        return {**parts, "other": self.elapsed - sum(parts.values())}


# -- How many candidates fit into the time that a run has left ------------------------------------

# Least size of the first batch of a run with a wall-clock budget, before any measurement.
_FIRST_BATCH = 8
# Candidates in a batch for each one that is measured at a time; a descent keeps fewer pending.
_FOR_EACH_AT_ONCE = 4
# Of the first batch with a wall-clock budget: a descent keeps half of that pending.
_FIRST_FOR_EACH = 2
_LARGEST_BATCH = 128


def batch_for(parallel: int, trials: int | None) -> int:
    """Return how many candidates to ask for at a time, see ``tune``.

    ``parallel`` are those that the measurer works on at once. ``trials`` limits the search, which
    learns between batches: a batch has half of them at most.
    """
    most = _LARGEST_BATCH if trials is None else min(_LARGEST_BATCH, trials // 2)
    return max(BATCH, min(_FOR_EACH_AT_ONCE * parallel, most))


class Pace:
    """Says how many candidates a run may ask for, by what asking and measuring took so far.

    Parameters
    ----------
    budget: wall time of the call.
    finals: whether there are finals, for which the search leaves time.
    at_once: how many candidates the measurer works on at once; the first batch keeps it busy.

    Attributes
    ----------
    deadline: when the search ends, by the clock, as it was planned when ``fit`` was last called.
    cut: time ended the slice.
    out_of_time: it was that of the budget.
    """

    def __init__(self, budget: Budget, *, finals: bool, at_once: int = 1) -> None:
        self._budget = budget
        self._first_batch = max(_FIRST_BATCH, _FIRST_FOR_EACH * at_once)
        self._finals = finals
        self.deadline = budget.search_deadline(finals)
        self.out_of_time = False
        self._asking_seconds = 0.0
        self._start_seconds = 0.0
        self.begin_slice(math.inf)

    def begin_slice(self, until: float) -> None:
        """Begin a slice, which ends at ``until``, by the clock; one candidate fits in any case."""
        self._slice_end = until
        self._is_first = True
        self.cut = False

    def fit(self, wanted: int) -> int:
        """Return how many of ``wanted`` candidates fit into the time left, as far as is known.

        0 where not even one does: it would be cut off, and its worker with it.
        """
        budget = self._budget
        self.deadline = budget.search_deadline(self._finals)
        if not budget.limited:
            return wanted
        fits = self._fitting(self.deadline)
        self.out_of_time = fits < 1
        in_slice = max(self._fitting(self._slice_end), int(self._is_first))
        self._is_first = False
        self.cut = min(fits, in_slice) < 1
        return 0 if self.cut else int(min(wanted, fits, in_slice))

    def _fitting(self, end: float) -> float:
        budget = self._budget
        left = end - budget.clock.now()
        if not budget.measured:
            # Workers start and right results are computed once, however many candidates follow.
            self._start_seconds = budget.elapsed
            return self._first_batch if left > 0 else 0
        each = (budget.elapsed - self._start_seconds) / budget.measured
        return math.inf if each == 0 else (left - self._asking_seconds) / each

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Note how long the search takes to propose a batch: the time inside."""
        began = self._budget.clock.now()
        yield
        self._asking_seconds = self._budget.clock.now() - began


# -- The end of code of the user's that is late ---------------------------------------------------
#
# A module, a search or a cost model may not return, in what a search proposes or in the programs
# that it starts from. Python can raise an exception in a thread that runs Python code; a call
# into C that does not return cannot be ended so.

Returned = TypeVar("Returned")

GRACE = 2.0
"""Seconds that code may take after the end of the budget."""
_AGAIN = 1.0
"""Seconds after which code that has caught the exception gets another."""
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
_ROOT = Path(__file__).resolve().parents[2]
_OWN = tuple(_ROOT / part for part in ("schedlang", "modules", "search", "targets"))
_LIBRARY = sysconfig.get_path("stdlib")


class OutOfTime(KeyboardInterrupt):
    """The seconds of a call were over while code in this process ran.

    It passes through what lets Ctrl-C pass: it is no failure of the code that it interrupts.
    """

    @property
    def running(self) -> str:
        """Where it struck: ``propose (search.py:12)``, the innermost function of the user's."""
        frames = [
            one for one in traceback.extract_tb(self.__traceback__) if one.filename != __file__
        ]
        others = [one for one in frames if not _is_own(one.filename)]
        last = (others or frames)[-1]
        return f"{last.name} ({Path(last.filename).name}:{last.lineno})"


def before_the_end(budget: Budget, call: Callable[[], Returned]) -> Returned | None:
    """Return what ``call`` returns; None where that is late, see ``within``."""
    try:
        return within(budget, call)
    except OutOfTime:
        return None


def _is_own(file: str) -> bool:
    if file.startswith(_LIBRARY):
        return True
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _OWN)


def within(budget: Budget, call: Callable[[], Returned]) -> Returned:
    """Return what ``call`` returns; ``OutOfTime`` where that is late by ``GRACE`` seconds.

    A budget without a limit, and one whose clock is not the system's, ends nothing.
    """
    if not budget.limited or budget.clock is not SYSTEM:
        return call()
    done, thread = threading.Event(), threading.get_ident()

    def strike() -> None:
        seconds = max(budget.left, 0.0) + GRACE
        while not done.wait(seconds):
            _raise_in(thread, id(OutOfTime))
            seconds = _AGAIN

    def stop() -> None:
        """End the other thread, then take back an exception that has not been raised yet."""
        while True:
            try:
                done.set()
                watcher.join()
                _raise_in(thread, None)
                return
            except OutOfTime:
                pass

    watcher = threading.Thread(target=strike, name="schedlang-time-limit", daemon=True)
    try:
        try:
            watcher.start()
            return call()
        finally:
            stop()
    except OutOfTime:
        stop()  # it may have struck where the other call of this began
        raise
