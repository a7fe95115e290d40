"""Reading MetaSchedule's JSON databases into one of schedlang's."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedlang.database import Database, Record, opened_database
from schedlang.database.programs import put_program
from schedlang.errors import TargetError, TraceFormatError
from schedlang.interpreters.conversions import LeftOut
from schedlang.measurement import Status
from schedlang.metaschedule.expressing import Machine, as_machine, machine_of_stored
from schedlang.metaschedule.reading import (
    Refused,
    StoredLine,
    parts_of,
    read_lines,
    samples_of,
    trace_of,
    workload_of,
    written,
)
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.workloads.workload import Workload

SEARCH = "metaschedule"
_BATCH = 256


def import_json(
    workloads: str | os.PathLike[str],
    records: str | os.PathLike[str] | None = None,
    database: Database | str | os.PathLike[str] | None = None,
    *,
    target: Machine | str | None = None,
    toolchain_key: str = SEARCH,
) -> Imported:
    """Read a MetaSchedule JSON database.

    Parameters
    ----------
    workloads: ``database_workload.json``, or the folder that holds it and the records.
    records: ``database_tuning_record.json``; not needed when ``workloads`` is a folder.
    database: where the records go: a path or a ``Database``.
    target: the machine that the records are for; by default each record's own, as far as it says
        its CPU and cores. Records for another kind of target are skipped.
    toolchain_key: under which the records are stored; their latencies compare with each other.

    A line is skipped, and listed in the report, when it is torn or is no record, when schedlang
    does not have one of its instructions, when an instruction does not apply, or when its trace
    makes another program here than in TVM. Nothing in the files is run as code, and everything is
    checked before TVM sees it. The records are stored as not verified, because their results were
    never compared. Raises ``DatabaseError`` when a file or the database cannot be opened,
    ``TypeError`` without a database.
    """
    workload_file, record_file = _files(Path(workloads), records)
    if database is None:
        raise TypeError("import_json: give database=, a path or a Database")
    reader = _Importer(None if target is None else as_machine(target), toolchain_key)
    reader.read_workloads(workload_file)
    with opened_database(database) as opened:
        reader.read_records(record_file, opened)
    return reader.report()


def _files(workloads: Path, records: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    if records is not None:
        return workloads, Path(records)
    folder = workloads if workloads.is_dir() else workloads.parent
    file = folder / tvm_metaschedule.WORKLOADS_FILE if workloads.is_dir() else workloads
    return file, folder / tvm_metaschedule.RECORDS_FILE


class _Importer:
    def __init__(self, target: Machine | None, toolchain_key: str) -> None:
        self.target = target
        self.toolchain_key = toolchain_key
        self.workloads: list[Workload | None] = []
        self.skipped: list[Skipped] = []
        self.known: dict[str, set[tuple[str, tuple[float, ...]]]] = {}
        self.counts = {"records": 0, "failed": 0, "known": 0}
        self.used: set[str] = set()

    def report(self) -> Imported:
        return Imported(**self.counts, workloads=len(self.used), skipped=tuple(self.skipped))

    def read_workloads(self, path: Path) -> None:
        for line in read_lines(path):
            # Records refer to workloads by line number, in which empty lines count.
            self.workloads += [None] * (line.number - 1 - len(self.workloads))
            found = None
            try:
                found = workload_of(line)
            except Refused as error:
                self._skip(path, line, error)
            self.workloads.append(found)

    def read_records(self, path: Path, database: Database) -> None:
        created = written(path) if path.exists() else 0.0
        batch: list[Record] = []
        for line in read_lines(path):
            try:
                record = self._record(line, created)
            except Refused as error:
                self._skip(path, line, error)
                continue
            if self._is_known(record, database):
                self.counts["known"] += 1
                continue
            self.counts["records" if record.ok else "failed"] += 1
            batch.append(record)
            if len(batch) == _BATCH:
                database.append(batch)
                batch = []
        database.append(batch)

    def _skip(self, path: Path, line: StoredLine, error: Refused) -> None:
        self.skipped.append(Skipped(str(path), line.number, error.reason, error.detail))

    def _is_known(self, record: Record, database: Database) -> bool:
        key = record.workload_key
        if key not in self.known:
            stored = database.query(key, toolchain_key=self.toolchain_key)
            self.known[key] = {_identity(one) for one in stored}
            workload = next(w for w in self.workloads if w is not None and w.key == key)
            put_program(database, workload)
        self.used.add(key)
        identity = _identity(record)
        if identity in self.known[key]:
            return True
        self.known[key].add(identity)
        return False

    def _record(self, line: StoredLine, created: float) -> Record:
        index, stored = parts_of(line)
        if not 0 <= index < len(self.workloads):
            raise Refused("workload missing", f"there is no workload {index}")
        workload = self.workloads[index]
        if workload is None:
            raise Refused("workload missing", f"workload {index} could not be read")
        trace_document, seconds, target, _ = stored
        samples = samples_of(seconds)
        try:
            machine = machine_of_stored(target, self.target)
        except TraceFormatError as error:
            raise Refused("not a record", error) from None
        except TargetError as error:
            raise Refused("other target", error) from None
        trace, program_key = trace_of(trace_document, workload)
        return Record(
            workload_key=workload.key,
            workload_name=workload.name,
            target_key=machine.key,
            toolchain_key=self.toolchain_key,
            trace_json=trace.to_json(),
            status=Status.OK if samples else Status.RUN_ERROR,
            samples=samples,
            message="" if samples else "MetaSchedule could not build or run it",
            verified=False,
            search=SEARCH,
            seed=None,
            created=created,
            program_key=program_key,
        )


def _identity(record: Record) -> tuple[str, tuple[float, ...]]:
    return f"{record.target_key} {record.program_key or record.trace_json}", record.samples


# -- The reports of an import and of an export ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that was not imported.

    Attributes
    ----------
    file, line: its place; lines count from 1.
    reason: a short text for counting, such as ``"torn line"``; stable between versions.
    detail: what exactly is wrong.
    """

    file: str
    line: int
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Imported:
    """Number of records and workloads that an import read, and the lines it skipped.

    Attributes
    ----------
    records: number of new records with a latency.
    failed: number of new records of candidates that MetaSchedule could not time.
    known: number of records that an earlier import stored already.
    workloads: number of programs that these records are of.
    skipped: the lines that were skipped, in the order of the files.
    """

    records: int
    failed: int
    known: int
    workloads: int
    skipped: tuple[Skipped, ...]

    @property
    def reasons(self) -> dict[str, int]:
        """Return the number of skipped lines by reason, the most frequent first."""
        return _counted(self.skipped)

    def __str__(self) -> str:
        known = f", {self.known} known before" if self.known else ""
        return (
            f"{self.records} records and {self.failed} failures of {self.workloads} workloads"
            f"{known}; {len(self.skipped)} lines skipped{_listed(self.reasons)}"
        )


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
class Partial:
    """A record of which a part was written, because TVM's traces cannot hold all of it.

    The program computes the same and is slower. It was not measured: its times in the file are
    those of the whole program times a million, so that TVM prefers any record that was measured.

    Attributes
    ----------
    id: of the record.
    left_out: the instructions that were left out.
    """

    id: int | None
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        return f"record {self.id}, in part: {'; '.join(map(str, self.left_out))}"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Attributes
    ----------
    folder: the folder of ``database_workload.json`` and ``database_tuning_record.json``.
    records, workloads: number of each in these files.
    unexpressed: records that were skipped, because TVM can apply nothing of them.
    partial: those of the written records that lack instructions.
    """

    folder: Path
    records: int
    workloads: int
    unexpressed: tuple[Unexpressed, ...]
    partial: tuple[Partial, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """Return the number of skipped records by reason, the most frequent first."""
        return _counted(self.unexpressed)

    def __str__(self) -> str:
        in_part = f" ({len(self.partial)} of them in part)" if self.partial else ""
        return (
            f"{self.records} records{in_part} of {self.workloads} workloads in {self.folder}, "
            f"{len(self.unexpressed)} left out{_listed(self.reasons)}"
        )


def _counted(left_out: Iterable[Skipped | Unexpressed]) -> dict[str, int]:
    return dict(Counter(one.reason for one in left_out).most_common())


def _listed(reasons: Mapping[str, int]) -> str:
    return "".join(f"; {count} x {reason}" for reason, count in reasons.items())
