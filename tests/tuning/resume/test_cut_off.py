"""A run that ends in the middle of its search's last batch goes on with the rest of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database
from schedlang.measurement import Candidate, Measurement
from schedlang.testing.spaces import TINY, TINY_PROGRAMS, small_workload
from schedlang.tuning import InterruptedWarning
from tests.tuning.fake_time import FakeTime
from tests.tuning.resume.test_resume import SECONDS, Counted


class Punctual(Counted):
    """Stops at the deadline, in the middle of a batch."""

    deadline = float("inf")

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for measurement in super().measure(candidates):
            if self._clock.now > self.deadline:
                return
            yield measurement


def tune(database: Database, measurer: Punctual, **options: Any) -> sl.TuneResult:
    call: dict[str, Any] = {"space": TINY, "search": "grid", "batch": 8, "finals": 0}
    return sl.tune(small_workload(), database=database, measurer=measurer, **call | options)


def test_after_the_time_was_over(database: Database, clock: FakeTime) -> None:
    first = tune(database, Punctual(clock=clock), seconds=2.5 * SECONDS)
    assert "are over" in first.finished and len(first.records) == 2 < TINY_PROGRAMS
    more = tune(database, Punctual(clock=clock), seconds=100)
    assert len(more.records) == TINY_PROGRAMS and more.finished == "all 4 programs proposed"
    # Now there is nothing left: the same call returns what is stored.
    measurer = Punctual(clock=clock)
    assert tune(database, measurer, seconds=1000).records == more.records
    assert measurer.count == 0


def test_after_a_stop_rule(database: Database, clock: FakeTime) -> None:
    first = tune(database, Punctual(clock=clock), stop_when=lambda trial: trial.trials >= 2)
    assert len(first.records) == 2
    assert len(tune(database, Punctual(clock=clock)).records) == TINY_PROGRAMS


def test_after_ctrl_c(database: Database, clock: FakeTime) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Punctual(3, clock))
    assert len(tune(database, Punctual(clock=clock)).records) == TINY_PROGRAMS
