"""The unscheduled program in a run: it is measured and stored as well, and may win."""

from __future__ import annotations

import math

from schedlang.database import Database, Record
from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurer
from schedlang.tuning.records import unscheduled_record
from schedlang.tuning.resume import RunState


class Unscheduled:
    """The unscheduled program of a run, measured and stored once; it is no trial.

    A record that the database has of it, of the same run or another, makes measuring it
    unnecessary. Where its measurement was cut off it has no record, and cannot win.

    Parameters
    ----------
    state: of the run.
    blank: the fields that all records of the run share.
    database: where the record goes.
    measurer: measures the workload.

    Attributes
    ----------
    measured: whether it was asked for.
    latency: median latency in seconds. NaN before it is measured, and where time was over first.
    complete: False where ``latency`` is a lower bound.
    record: its record; None without a latency.
    """

    def __init__(
        self, state: RunState, blank: Record, database: Database, measurer: Measurer
    ) -> None:
        self._state = state
        self._blank = blank
        self._database = database
        self._measurer = measurer
        self.measured = False
        self.latency = math.nan
        self.complete = True
        self.record: Record | None = None

    def find(self) -> bool:
        """Take the record that the database has, if any; return whether it was measured."""
        if not self.measured:
            self.record = self._state.find_unscheduled()
            if self.record is not None:
                self.latency = self.record.latency
                self.measured = True
        return self.measured

    def measure(self) -> None:
        """Find its record or measure it, once. TargetError when it cannot be measured."""
        if self.find():
            return
        self.latency = self._measurer.reference_latency
        self.complete = self._measurer.reference_complete
        if self.complete and 0 < self.latency < math.inf:
            workload = self._state.workload
            record = unscheduled_record(self._blank, workload, self.latency)
            [self.record] = self._database.append([record])
        self.measured = True

    def enter(self) -> None:
        """Let it compete with the fastest candidates, if it has a latency."""
        if self.record is not None:
            schedule = Schedule(self._state.workload)
            self._state.leaderboard.add_unscheduled(self.record, schedule)
