"""Writing a schedlang database as one of MetaSchedule's, and its records as programs for TVM."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.database import Database, Record, opened_database
from schedlang.errors import DatabaseError
from schedlang.files import as_path
from schedlang.interpreters.conversions import TVMForm
from schedlang.interpreters.document import short
from schedlang.interpreters.python import comment
from schedlang.language.schedule import Trace
from schedlang.measurement import Status, describe_latency
from schedlang.metaschedule.expressing import (
    Expressed,
    Machine,
    NotExpressed,
    as_machine,
    as_tvm_trace,
    check_same,
    expressed,
)
from schedlang.metaschedule.importing import Exported, Partial, Unexpressed
from schedlang.tvm import errors, metaschedule as tvm_metaschedule
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


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

    TVM applies each trace as it is stored in the file before the file is kept. Instructions that
    TVM's traces cannot hold are left out, and records of which TVM can apply nothing are skipped;
    the report lists both. The files are written under other names and
    renamed when they are complete. Raises ``DatabaseError`` when a file or the database cannot be
    read or written, ``TargetError`` for an unknown target.
    """
    machine = as_machine(target)
    if n is not None and n < 1:
        raise ValueError(f"n={n}; give 1 or more, or None for all")
    wanted = None if workload is None else as_workload(workload).key
    place = as_path(folder)
    with opened_database(database, read_only=True) as opened:
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
            left_out = (tuple(export.unexpressed), tuple(export.partial))
            return Exported(place, export.records, export.workloads, *left_out)
        except OSError as error:
            raise DatabaseError(f"{place}: {error.strerror}; export to another folder") from error


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
        self.writer = tvm_metaschedule.DatabaseWriter(scratch)
        self.records = 0
        self.workloads = 0
        self.unexpressed: list[Unexpressed] = []
        self.partial: list[Partial] = []

    def add_workload(self, key: str, n: int | None) -> None:
        """Write the fastest records of a workload."""
        count = self.database.count(key, self.machine.key, self.toolchain_key, Status.OK)
        records = self.database.best(key, self.machine.key, self.toolchain_key, count)
        if not records:
            return
        try:
            func = tvm_metaschedule.read_function(self.database.get_workload(key) or "")
        except ValueError as error:
            self._leave_out(records, NotExpressed("unreadable workload", str(error)))
            return
        mod = tvm_metaschedule.normalized(func)
        before = self.records
        for one in expressed(
            self._verified(records), mod, lambda record, error: self._leave_out([record], error)
        ):
            if n is not None and self.records - before == n:
                break
            try:
                self._add(one, mod)
            except NotExpressed as error:
                self._leave_out([one.record], error)
        self.workloads += self.records > before

    def _verified(self, records: list[Record]) -> Iterator[Record]:
        """Yield the records that may be written; note the others."""
        for record in records:
            if self.verified and not record.verified:
                error = NotExpressed("not verified", "verified=False writes it")
                self._leave_out([record], error)
            else:
                yield record

    def _add(self, one: Expressed, mod: TensorProgram) -> None:
        form = one.form
        try:
            written = self._write(one, form, mod)
        except Exception:  # TVM's errors have many types
            # Its files cannot hold expressions of draws.
            form = as_tvm_trace(one.record, mod, numbers=True)
            try:
                written = self._write(one, form, mod)
            except Exception as error:
                raise NotExpressed("TVM cannot write it", errors.reason_of(error)) from None
        try:
            check_same(form.mod, tvm_metaschedule.apply_stored(written, mod))
        except Exception as error:
            self.writer.take_back()
            raise NotExpressed("not as it was written", errors.reason_of(error)) from None
        self.records += 1
        if form.left_out:
            self.partial.append(Partial(one.record.id, form.left_out))

    def _write(self, one: Expressed, form: TVMForm, mod: TensorProgram) -> list[Any]:
        return self.writer.add(form.trace, mod, one.samples, self.machine.tvm_target())

    def _leave_out(self, records: list[Record], error: NotExpressed) -> None:
        for record in records:
            self.unexpressed.append(Unexpressed(record.id, error.reason, short(str(error), 300)))


def record_as_python(record: Record, database: Database) -> str:
    """Return a Python program that makes the scheduled program as ``sch.mod``, with TVM alone.

    It contains the program before scheduling and the calls that schedule it, or, where TVM has no
    counterpart of an instruction, the scheduled program. Raises ``DatabaseError`` when the database
    does not hold the program or it cannot be read, ``TraceFormatError`` when the trace cannot be
    read, ``InvalidTrace`` when it does not apply.
    """
    what = f"record {record.id} of workload {record.workload_key}"
    text = database.get_workload(record.workload_key)
    if text is None:
        raise DatabaseError(
            f"{what}: the database does not hold the workload's program; put it there with "
            "put_workload, or replay the trace on the workload yourself"
        )
    try:
        mod = tvm_metaschedule.read_program(text)
    except ValueError as error:
        raise DatabaseError(f"{what}: its program cannot be read: {error}") from None
    workload = Workload(mod, record.workload_name)
    trace = Trace.from_json(record.trace_json, workload)
    body = trace.as_tvm_python(workload)
    return "\n".join([*map(comment, _head(record)), body])


def _head(record: Record) -> list[str]:
    day = time.strftime("%Y-%m-%d", time.gmtime(record.created))
    measured = f"ended as {record.status}"
    if record.ok:
        times = "time" if len(record.samples) == 1 else "times"
        measured = f"{describe_latency(record.latency)}, median of {len(record.samples)} {times}"
    verified = "its results were compared" if record.verified else "its results were not compared"
    return [
        f"{record.workload_name} (workload {record.workload_key})",
        f"on {record.target_key}: {measured}; {verified}",
        f"found by {record.search}, measured {day} with {record.toolchain_key}",
        "The scheduled program is sch.mod; this needs TVM 0.27 and nothing else.",
    ]
