"""Records of other runs that make measuring a program unnecessary."""

from __future__ import annotations

import dataclasses

from schedlang.database import Database, Record
from schedlang.measurement.problem import Verify
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import verification_of
from schedlang.workloads.workload import Workload


class MeasurementCache:
    """Measurements of one workload on one machine with one toolchain, by program.

    Parameters
    ----------
    blank: has the keys of workload, machine and toolchain, and how results are verified: records
        that were measured with other inputs, or compared otherwise, do not do.
    verified: which unverified records to reuse: with True, the ones too slow to win; with
        ``"all"``, none; with False, every one.
    """

    def __init__(self, database: Database, blank: Record, *, verified: Verify) -> None:
        self._database = database
        self._keys = (blank.workload_key, blank.target_key, blank.toolchain_key)
        self._verified = verified
        self._verification = verification_of(blank)

    def find_unscheduled(self, workload: Workload) -> Record | None:
        """Return the first record of the unscheduled program."""
        found = self._database.query(*self._keys, program_key=workload.key)
        usable = (record for record in found if verification_of(record) == self._verification)
        return next((record for record in usable if record.unscheduled and record.ok), None)

    def find(self, program_key: str, leaderboard: Leaderboard, run_id: int) -> Record | None:
        """Return the first usable record of a program, except the records of one run."""
        for record in self._database.query(*self._keys, program_key=program_key):
            if record.run_id == run_id or not record.certain:
                continue  # an uncertain latency is measured again
            if verification_of(record) != self._verification:
                continue
            if not record.ok or record.verified or not self._verified:
                return record
            if self._verified == "all":
                continue
            if not leaderboard.admits(dataclasses.replace(record, verified=True)):
                return record  # it could not win, so its results were not compared
        return None
