"""The wall-clock budget of a tuning run: where it went, and how much of it is left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.tuning.options import wrong_seconds

# The finals get this fraction of a wall-clock budget, up to this number of seconds.
_FINALS_PART = 0.2
FINALS_SECONDS = 7.0
# Seconds to build the finalists and to end the run, besides the finals' own samples.
_FINALS_OVERHEAD = 1.5


class Budget:
    """The wall time of one call; it counts from the moment the object is made.

    Parameters
    ----------
    seconds: wall-clock budget of the call; None for no limit. ValueError unless positive.
    finals: most seconds that are kept free for the finals.
    clock: tells the time to all that the call does.

    Attributes
    ----------
    clock: as given.
    seconds: the budget, infinite without a limit.
    earlier: seconds of the budget that earlier calls of the same run have used.
    measured: number of candidates measured in this call.
    finals_left: number of finals that the time left is for.
    """

    def __init__(
        self,
        seconds: float | None = None,
        finals: float = FINALS_SECONDS,
        clock: Clock = SYSTEM,
    ) -> None:
        if seconds is not None and (wrong := wrong_seconds(seconds)):
            raise ValueError(f"seconds={seconds!r}; {wrong}")
        self.clock = clock
        self._started = self.clock.now()
        self.seconds = math.inf if seconds is None else float(seconds)
        self.earlier = 0.0
        self.measured = 0
        self.finals_left = 1
        self._finals = finals
        self._spent = {"search": 0.0, "measure": 0.0, "finals": 0.0}

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

    def search_deadline(self, finals: bool) -> float:
        """Return when to stop measuring, by the clock: time for the finals is left."""
        kept = min(_FINALS_PART * self.seconds, self._finals) if finals and self.limited else 0
        return self._started + self.seconds - self.earlier - kept

    @property
    def finals_budget(self) -> float:
        """Seconds left for the samples of the next finals; 0 or less when there is no time."""
        left = self.seconds - self.used - _FINALS_OVERHEAD
        return left / max(self.finals_left, 1)

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
