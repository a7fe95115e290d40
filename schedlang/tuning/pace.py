"""How many candidates fit into the time that a run has left."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.tuning.budget import Budget
from schedlang.tuning.options import BATCH

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
