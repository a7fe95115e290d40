"""Remove records that are not needed any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from schedlang.database.database import Database
from schedlang.database.merging import all_records
from schedlang.database.ranking import LookupStanding, preferred
from schedlang.database.record import FinalsEntry
from schedlang.database.run import mentioned


class _TimedRecord(NamedTuple):
    """What decides whether a record with a latency stays."""

    most: float
    id: int
    created: float
    verified: bool
    program_key: str


@dataclass(frozen=True)
class Pruned:
    """What ``prune`` removed, or would remove.

    Attributes
    ----------
    records: number of records with a latency; failures: number of records without.
    runs: number of runs that were forgotten because some of their records were removed.
    kept: number of the matching records that are left.
    dry_run: nothing was removed.
    """

    records: int
    failures: int
    runs: int
    kept: int
    dry_run: bool = False

    def __str__(self) -> str:
        did, forgot = ("would remove", "forget") if self.dry_run else ("removed", "forgot")
        return (
            f"{did} {self.records} records and {self.failures} failures, and {forgot} {self.runs} "
            f"runs; {self.kept} records stay"
        )


def _left_over(
    records: Sequence[_TimedRecord], keep: int, finals: Sequence[FinalsEntry]
) -> list[_TimedRecord]:
    """Return all but the ``keep`` fastest, and the verified ones that a look-up prefers."""
    fastest = sorted(records)[:keep]
    verified = [
        LookupStanding(one.id, one.most, one.program_key) for one in records if one.verified
    ]
    kept = {one.id for one in fastest} | set(islice(preferred(verified, finals), keep))
    return [one for one in records if one.id not in kept]


def prune(
    database: Database,
    *,
    keep_best: int | None = None,
    older_than: float | None = None,
    workload_key: str | None = None,
    target_key: str | None = None,
    toolchain_key: str | None = None,
    failures: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Remove records: all that match, or none if it fails.

    A run that loses a record is forgotten, so that ``tune`` does not take it for complete; its
    other records stay. Programs stay.

    Parameters
    ----------
    keep_best: number of records to keep of each workload, target and toolchain: this many of the
        fastest, and this many of the verified ones that a look-up prefers: winners of finals, then
        the fastest. The others are removed; 0 removes all that have a latency.
    older_than: remove only records that were measured before this time, in seconds since 1970.
    workload_key, target_key, toolchain_key: remove only records with these keys.
    failures: also remove records of failed candidates, which tell ``tune`` what not to try again.
    dry_run: only count.

    Raises ``ValueError`` when none of ``keep_best``, ``older_than`` and ``failures`` is given.
    """
    if keep_best is None and older_than is None and not failures:
        raise ValueError("say what goes: give keep_best, older_than or failures=True")
    if keep_best is not None and keep_best < 0:
        raise ValueError(f"keep_best must be at least 0, not {keep_best}")
    with nullcontext() if dry_run else database.transaction():
        timed: dict[tuple[str, str, str], list[_TimedRecord]] = defaultdict(list)
        failed: list[tuple[int, float]] = []
        run_of: dict[int, int | None] = {}
        for record in all_records(database, workload_key, target_key, toolchain_key):
            assert record.id is not None
            run_of[record.id] = record.run_id
            if record.ok:
                key = (record.workload_key, record.target_key, record.toolchain_key)
                timed[key].append(
                    _TimedRecord(
                        record.most,
                        record.id,
                        record.created,
                        record.verified,
                        record.program_key,
                    )
                )
            else:
                failed.append((record.id, record.created))
        slow: set[int] = set()
        if keep_best is not None or older_than is not None:
            for key, records in timed.items():
                slow.update(
                    one.id
                    for one in _left_over(records, keep_best or 0, database.finals(*key))
                    if older_than is None or one.created < older_than
                )
        useless = {
            number
            for number, created in failed
            if failures and (older_than is None or created < older_than)
        }
        gone = slow | useless
        broken = {run_of[number] for number in gone}
        forgotten = [
            run.id
            for run in database.runs()
            if run.id is not None and (run.id in broken or mentioned(run) & gone)
        ]
        if not dry_run:
            for number in forgotten:
                database.delete_run(number)
            database.delete(gone)
    if gone and not dry_run:
        database.compact()
    kept = len(run_of) - len(gone)
    return Pruned(len(slow), len(useless), len(forgotten), kept, dry_run)
