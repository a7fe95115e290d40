"""What a tuning run takes from the other runs of its database."""

from __future__ import annotations

import os
from collections.abc import Sequence

from schedlang.database import Database, Record
from schedlang.language.schedule import Trace
from schedlang.measurement.problem import Verify
from schedlang.search import Strategy, pretrain
from schedlang.search.models.pretraining import records_to_learn
from schedlang.spaces.space import Space
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.warm_start.kin import carried_over
from schedlang.tuning.warm_start.measurement_cache import MeasurementCache
from schedlang.tuning.warm_start.suggestions import (
    applied,
    kin_suggestions,
    newest,
    suggestions,
)
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
    transfer: start searches from the fastest programs of the workload and of its family; without
        any, from those of programs of the same structure and the nearest shapes.
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
        self._transfer = transfer
        self._past = self._suggested(None)
        self.newest = newest([record for record, _ in self._past])

    def prepare(self, strategy: Strategy, known: int | None = None) -> None:
        """Show a search that was asked nothing yet what was fast before, and teach its model.

        ``known`` is the ``newest`` of an earlier call: the search then starts from the records that
        were known to it.
        """
        past = self._past if known is None else self._suggested(known)
        if not past:
            return
        strategy.suggest(self._applied(past, strategy))
        model = strategy.cost_model
        if model is not None and not model.trained:
            learned = pretrain(
                model,
                self._database,
                target_key=self._target_key,
                workloads={record.workload_key for record, _ in past},
                limit=_TAUGHT,
                newest=newest([record for record, _ in past]),
                threads=_THREADS,
            )
            learned.unreadable.warn()

    def learned_from(self, known: int | None = None) -> list[Record]:
        """Return the records that ``prepare`` uses: to start from, and to teach a cost model."""
        past = self._past if known is None else self._suggested(known)
        latest = newest([record for record, _ in past])
        found = {record.id: record for record, _ in past}
        for key in {record.workload_key for record, _ in past}:
            some = records_to_learn(self._database, key, self._target_key, _TAUGHT, latest)
            found |= {record.id: record for record in some}
        return list(found.values())

    def _suggested(self, known: int | None) -> list[tuple[Record, Workload | None]]:
        """Return records to start from, and the programs of those of other shapes.

        Those are asked where nothing nearer is known. With ``known``, only records up to this id
        count.
        """
        if not self._transfer or known == 0:
            return []
        asked = (self._database, self._workload, self._target_key, known)
        near = suggestions(*asked)
        return [(record, None) for record in near] or [*kin_suggestions(*asked)]

    def _applied(
        self, past: Sequence[tuple[Record, Workload | None]], strategy: Strategy
    ) -> list[Trace]:
        """Return the traces that records make on the workload; none in a space of recorded ones."""
        space = getattr(strategy, "space", None)
        if isinstance(space, Space) and not space.restorable:
            return []
        found = applied([record for record, source in past if source is None], self._workload)
        if isinstance(space, Space):
            for record, source in past:
                if source is not None:
                    schedule = carried_over(record, source, self._workload, space)
                    found += [] if schedule is None else [schedule.trace]
        return found

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
