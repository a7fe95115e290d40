"""What a run takes from earlier ones: traces to start from, a taught cost model, measurements.

``WarmStart`` reads the other runs of the run's database: the fastest programs of the workload and
of similar ones, records that teach the cost model, and measurements that need not be made again.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from schedlang.database import Database, Record
from schedlang.database.programs import replayed
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.measurement.problem import Verify
from schedlang.search import Strategy, pretrain
from schedlang.search.cost_model import records_to_learn
from schedlang.spaces.space import Space
from schedlang.tuning.kernels.rungs import carried_over, nearest_kin
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import verification_of
from schedlang.workloads.workload import Workload

# -- What a run takes from the other runs of its database -----------------------------------------

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


# -- Fast programs to start a search from ---------------------------------------------------------

# Number of programs of each workload, of other workloads, and of records of each that are read.
_OF_EACH = 2
_OTHERS = 4
_LOOKED_AT = 16


def related(database: Database, workload: Workload) -> list[str]:
    """Return the keys of the workload, of equivalent workloads, and of its family."""
    found = [workload.key]
    for keys in (
        database.workloads(exact_key=workload.exact_key),
        database.workloads(family_key=workload.family_key),
    ):
        found += [key for key, _ in keys if key not in found]
    return found


def suggestions(
    database: Database, workload: Workload, target_key: str, newest: int | None = None
) -> list[Record]:
    """Return the fastest verified records of a workload and of related ones on a kind of machine.

    With ``newest``, only records up to this id count.
    """
    own, *others = related(database, workload)
    chosen: list[Record] = []
    for key in (own, *others[:_OTHERS]):
        chosen += _fastest(database, key, target_key, newest)
    return chosen


def kin_suggestions(
    database: Database, workload: Workload, target_key: str, newest: int | None = None
) -> list[tuple[Record, Workload]]:
    """Return the fastest verified records of programs of nearly the same shapes, and the programs.

    The fastest of each comes first, in the order of their distances. With ``newest``, only records
    up to this id count.
    """
    chosen: list[list[tuple[Record, Workload]]] = []
    for key, source in nearest_kin(database, workload):
        records = _fastest(database, key, target_key, newest)
        if records:
            chosen.append([(record, source) for record in records])
        if len(chosen) == _OTHERS:
            break
    ranks = zip_longest(*chosen)
    return [one for rank in ranks for one in rank if one is not None]


def _fastest(database: Database, key: str, target_key: str, newest: int | None) -> list[Record]:
    """Return the fastest verified records of different programs of a workload."""
    if newest is None:
        found = database.best(key, target_key, n=_LOOKED_AT, verified=True)
    else:
        found = database.query(key, target_key, status=Status.OK)
        found = [one for one in found if one.verified and (one.id or 0) <= newest]
        found = sorted(found, key=lambda one: one.latency)[:_LOOKED_AT]
    return list(_different(found))


def _different(fastest_first: Iterable[Record]) -> Iterator[Record]:
    """Yield the first records of different programs; the unscheduled one is no suggestion."""
    seen: set[str] = set()
    for record in fastest_first:
        if record.unscheduled:
            continue
        if record.program_key not in seen and len(seen) < _OF_EACH:
            seen.add(record.program_key)
            yield record


def applied(records: Sequence[Record], workload: Workload) -> list[Trace]:
    """Return the traces of the records that replay on ``workload``; block names may differ."""
    schedules = [replayed(record, workload) for record in records]
    return [schedule.trace for schedule in schedules if schedule is not None]


def newest(records: Sequence[Record]) -> int:
    """Return the largest id; 0 without any."""
    return max((record.id or 0 for record in records), default=0)


# -- Records that make measuring a program unnecessary --------------------------------------------


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
