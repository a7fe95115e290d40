"""Writing a schedlang database as one of MetaSchedule's JSON databases."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.database import Database, Record, open_database
from schedlang.errors import DatabaseError
from schedlang.formats.document import short
from schedlang.measurement import Status
from schedlang.metaschedule.expressing import NotExpressed, as_tvm_trace, check_same
from schedlang.metaschedule.machine import Machine, as_machine
from schedlang.tvm import errors
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.workloads.construct import as_workload

if TYPE_CHECKING:
    from tvm.ir import IRModule


@dataclass(frozen=True, slots=True)
class Unexpressed:
    """A record that was not written.

    Attributes
    ----------
    id: of the record.
    reason: a short text for counting; stable between versions.
    detail: what exactly is wrong.
    """

    id: int | None
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"record {self.id}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Attributes
    ----------
    folder: the folder of ``database_workload.json`` and ``database_tuning_record.json``.
    records, workloads: number of each in these files.
    unexpressed: records that were skipped, because TVM's traces cannot hold them.
    """

    folder: Path
    records: int
    workloads: int
    unexpressed: tuple[Unexpressed, ...]

    @property
    def reasons(self) -> dict[str, int]:
        """Return the number of skipped records by reason, the most frequent first."""
        return dict(Counter(one.reason for one in self.unexpressed).most_common())

    def __str__(self) -> str:
        left_out = "".join(f"; {count} x {reason}" for reason, count in self.reasons.items())
        return (
            f"{self.records} records of {self.workloads} workloads in {self.folder}, "
            f"{len(self.unexpressed)} left out{left_out}"
        )


def export_json(
    database: Database | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    target: Machine | str = "cpu",
    workload: Any = None,
    n: int | None = None,
    toolchain_key: str | None = None,
    verified: bool = True,
) -> Exported:
    """Write a MetaSchedule JSON database that TVM's own ``JSONDatabase`` opens.

    Parameters
    ----------
    database: a path or a ``Database``.
    folder: where to write ``database_workload.json`` and ``database_tuning_record.json``. It is
        made if it does not exist; files of these names in it are replaced.
    target: the machine whose records are exported. It is one machine, because MetaSchedule ignores
        the target of a record.
    workload: a ``Workload``, or what makes one; by default all.
    n: maximum number of records of each workload, the fastest first; by default all that have a
        latency.
    toolchain_key: export only records of this toolchain; by default all.
    verified: skip records whose results were not compared with the unscheduled program's.

    TVM applies each trace as it is stored in the file before the file is kept. Records that TVM
    cannot hold are skipped; the report lists them. The files are written under other names and
    renamed when they are complete. Raises ``DatabaseError`` when a file or the database cannot be
    read or written, ``TargetError`` for an unknown target.
    """
    machine = as_machine(target)
    if n is not None and n < 1:
        raise ValueError(f"n={n}; give 1 or more, or None for all")
    wanted = None if workload is None else as_workload(workload).key
    opened = database if isinstance(database, Database) else open_database(database, read_only=True)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place, prefix=".export-") as scratch:
            export = _Export(Path(scratch), opened, machine, toolchain_key, verified)
            for key, _ in opened.workloads():
                if wanted in (None, key):
                    export.add_workload(key, n)
            # The records last: they refer to the programs by number.
            for name in (tvm_metaschedule.WORKLOADS_FILE, tvm_metaschedule.RECORDS_FILE):
                _replace(Path(scratch) / name, place / name)
        return Exported(place, export.records, export.workloads, tuple(export.unexpressed))
    except OSError as error:
        raise DatabaseError(f"{place}: {error.strerror}; export to another folder") from error
    finally:
        if opened is not database:
            opened.close()


def _replace(written: Path, place: Path) -> None:
    with written.open("rb") as file:
        os.fsync(file.fileno())
    written.replace(place)


class _Export:
    def __init__(
        self,
        scratch: Path,
        database: Database,
        machine: Machine,
        toolchain_key: str | None,
        verified: bool,
    ) -> None:
        self.database = database
        self.machine = machine
        self.toolchain_key = toolchain_key
        self.verified = verified
        self.writer = tvm_metaschedule.Writer(scratch)
        self.records = 0
        self.workloads = 0
        self.unexpressed: list[Unexpressed] = []

    def add_workload(self, key: str, n: int | None) -> None:
        """Write the fastest records of a workload."""
        count = self.database.count(key, self.machine.key, self.toolchain_key, Status.OK)
        records = self.database.best(key, self.machine.key, self.toolchain_key, count)
        if not records:
            return
        try:
            func = tvm_metaschedule.only_function(
                tvm_metaschedule.read_program(self.database.get_workload(key) or "")
            )
            if func is None:
                raise ValueError("it is not one function")
        except ValueError as error:
            self._leave_out(records, NotExpressed("unreadable workload", str(error)))
            return
        mod = tvm_metaschedule.normalized(func)
        before = self.records
        for record in records:
            if n is not None and self.records - before == n:
                break
            try:
                self._add(record, mod)
            except NotExpressed as error:
                self._leave_out([record], error)
        self.workloads += self.records > before

    def _add(self, record: Record, mod: IRModule) -> None:
        if self.verified and not record.verified:
            raise NotExpressed("not verified", "verified=False writes it")
        trace, made = as_tvm_trace(record, mod)
        target = self.machine.tvm_target()
        try:
            written = self.writer.add(trace, mod, record.samples, target)
        except Exception as error:  # TVM's errors have many types
            raise NotExpressed("TVM cannot write it", errors.reason_of(error)) from None
        try:
            check_same(made, tvm_metaschedule.apply_stored(written, mod))
        except Exception as error:
            self.writer.take_back()
            raise NotExpressed("not as it was written", errors.reason_of(error)) from None
        self.records += 1

    def _leave_out(self, records: list[Record], error: NotExpressed) -> None:
        for record in records:
            self.unexpressed.append(Unexpressed(record.id, error.reason, short(str(error), 300)))
