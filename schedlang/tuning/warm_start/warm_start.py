"""What a tuning run takes from the other runs of its database."""

from __future__ import annotations

import os

from schedlang.database import Database, Record
from schedlang.search import Strategy, pretrain
from schedlang.targets.measure.verification.policy import Verify
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.warm_start.measurement_cache import MeasurementCache
from schedlang.tuning.warm_start.suggestions import applied, newest, suggestions
from schedlang.workloads.workload import Workload

# Number of records of each workload that a cost model is taught before a run: some 10 ms each.
_TAUGHT = 64
_THREADS = min(os.cpu_count() or 1, 8)


class WarmStart:
    """Fast programs to start a search from, records to teach its cost model, and measurements.

    Parameters
    ----------
    blank: the fields that all records of the run share.
    verified: ``verify`` of ``tune``: which measurements of other runs will do.
    transfer: start searches from the fastest programs of the workload and of its family.
    reuse: do not measure a program again that another run measured.

    Attributes
    ----------
    newest: id of the newest record that searches start from; 0 without any.
    """

    def __init__(
        self,
        database: Database,
        workload: Workload,
        blank: Record,
        verified: Verify,
        *,
        transfer: bool,
        reuse: bool,
    ) -> None:
        self._database = database
        self._workload = workload
        self._target_key = blank.target_key
        self._cache = MeasurementCache(database, blank, verified=verified) if reuse else None
        self._suggested = suggestions(database, workload, blank.target_key) if transfer else []
        self.newest = newest(self._suggested)

    def prepare(self, strategy: Strategy, known: int | None = None) -> None:
        """Show a search that was asked nothing yet what was fast before, and teach its model.

        ``known`` is the ``newest`` of an earlier call: the search then starts from the records that
        were known to it.
        """
        past = self._suggested if known is None else self._known_then(known)
        if not past:
            return
        strategy.suggest(applied(past, self._workload))
        model = strategy.cost_model
        if model is not None and not model.trained:
            learned = pretrain(
                model,
                self._database,
                target_key=self._target_key,
                workloads={record.workload_key for record in past},
                limit=_TAUGHT,
                newest=newest(past),
                threads=_THREADS,
            )
            learned.unreadable.warn()

    def _known_then(self, known: int) -> list[Record]:
        if not known:
            return []
        return suggestions(self._database, self._workload, self._target_key, known)

    @property
    def reuses(self) -> bool:
        """Whether it takes measurements of other runs."""
        return self._cache is not None

    def find_unscheduled(self) -> Record | None:
        """Return a record of the unscheduled program that another run measured, if any."""
        return None if self._cache is None else self._cache.find_unscheduled(self._workload)

    def find_measured(
        self, program_key: str, leaderboard: Leaderboard, run_id: int
    ) -> Record | None:
        """Return a record of another run than ``run_id`` that will do for a program, if any."""
        return None if self._cache is None else self._cache.find(program_key, leaderboard, run_id)
