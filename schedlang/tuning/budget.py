"""The wall-clock budget of a tuning run: where it went, and how much of it is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.tuning.options import wrong_seconds

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
