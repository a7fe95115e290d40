"""schedlang's database as one of MetaSchedule's, for TVM's passes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from schedlang.database import Database, Record, best_first, open_database
from schedlang.database.programs import Unreadable
from schedlang.errors import DatabaseError, PartialTraceWarning, TargetError
from schedlang.interpreters.conversions import LeftOut
from schedlang.measurement import Status
from schedlang.metaschedule.expressing import (
    Expressed,
    Lookup,
    Machine,
    NotExpressed,
    as_machine,
    expressed,
)
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.tvm.metaschedule import PyDatabase, TuningRecord, TVMWorkload, derived_object
from schedlang.tvm.schedule import HeldProgram

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorFunction, TensorProgram

# Number of records to try before a function counts as not found; TVM may not hold the fastest.
_TRIED = 32


@derived_object
class TVMDatabase(PyDatabase):  # type: ignore[misc]
    """A MetaSchedule database that reads schedlang's; make one with ``as_tvm_database``.

    Attributes
    ----------
    used: the record that was found, by the function's name in the query of the pass.
    missed: why nothing was found, by name. The pass leaves such a function unscheduled.
    partial: what TVM's trace of the record lacks, by name; for such functions only.
    """

    def __init__(
        self,
        database: Database | str | os.PathLike[str],
        target: Machine | None,
        toolchain_key: str | None,
        verified: bool,
    ) -> None:
        super().__init__()
        if not isinstance(database, Database):
            database = open_database(database, read_only=True)
        if database.frozen:
            raise DatabaseError(
                f"{database.path} is frozen, and TVM's passes leave a program as it is where they "
                "find none: use schedlang.apply, which names it"
            )
        self.database = database
        self.target = target
        self.toolchain_key = toolchain_key
        self.verified = verified
        self.used: dict[str, Record] = {}
        self.missed: dict[str, str] = {}
        self.partial: dict[str, tuple[LeftOut, ...]] = {}
        self._lookup = Lookup(database)
        self._asked_for: list[HeldProgram] = []

    def close(self) -> None:
        """Close the database; ``used`` and ``missed`` stay."""
        self.database.close()

    # -- what TVM's passes ask -------------------------------------------------------------------

    def query_tuning_record(
        self, mod: TensorProgram, target: CompilerTarget, workload_name: str | None = None
    ) -> TuningRecord | None:
        """Return the best record of the function that TVM can apply; ``None`` without one."""
        name = str(workload_name or "main")
        for noted in (self.used, self.missed, self.partial):
            noted.pop(name, None)
        found = self._find(mod, target)
        if isinstance(found, str):
            self.missed[name] = found
            return None
        one, machine = found
        self.used[name] = one.record
        self._asked_for.append(HeldProgram(mod))  # the pass schedules this very module
        if one.form.left_out:
            self.partial[name] = one.form.left_out
            warnings.warn(
                f"{name}: record {one.record.id} is applied in part, because TVM's traces cannot "
                f"hold all of it: {one.form.omissions}; schedlang.apply(mod, database) applies "
                "whole records",
                PartialTraceWarning,
                stacklevel=2,
            )
        return _tuning_record(one, mod, target or machine.tvm_target())

    def has_workload(self, mod: TensorProgram) -> bool:
        """Return whether the program is in the database, with records or without."""
        func = tvm_metaschedule.only_function(mod)
        return func is not None and bool(self._lookup.workload_keys(func))

    def get_top_k(self, workload: TVMWorkload, top_k: int) -> list[TuningRecord]:
        """Return the ``top_k`` best records of a workload that TVM can apply, the best first."""
        func = tvm_metaschedule.only_function(workload.mod)
        if func is None or top_k <= 0:
            return []
        machine = self._machine(None)
        records = self._fastest(func, machine, None)
        found = expressed(records, workload.mod, lambda record, error: None)
        target = machine.tvm_target()
        return [_tuning_record(one, workload.mod, target) for one in islice(found, top_k)]

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """Return all records that TVM can apply, one workload after the other."""
        found: list[TuningRecord] = []
        unreadable = Unreadable()
        for key, name in self.database.workloads():
            workload = unreadable.workload(self.database, key, name)
            if workload is not None:
                found += self.get_top_k(TVMWorkload(workload.mod), len(self) or 1)
        unreadable.warn()
        return found

    def __len__(self) -> int:
        return self.database.count(
            target_key=self._machine(None).key, toolchain_key=self.toolchain_key, status=Status.OK
        )

    def commit_workload(self, mod: TensorProgram) -> TVMWorkload:
        """Return the module as a workload of TVM; nothing is stored."""
        return TVMWorkload(mod)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Raise ``DatabaseError``: a view is read-only."""
        raise DatabaseError(
            "this view of a schedlang database is for reading; let MetaSchedule tune into a JSON "
            "database, and import it with schedlang.metaschedule.import_json"
        )

    # -- finding ---------------------------------------------------------------------------------

    def _machine(self, target: CompilerTarget | None) -> Machine:
        if self.target is not None:
            return self.target
        return as_machine(target or tvm_metaschedule.current_target() or "cpu")

    def _find(
        self, mod: TensorProgram, target: CompilerTarget | None
    ) -> tuple[Expressed, Machine] | str:
        """Return what was found, or a text that says why nothing was."""
        func = tvm_metaschedule.only_function(mod)
        if func is None:
            return "it is not one PrimFunc"
        try:
            machine = self._machine(target)
        except TargetError as error:
            return f"its target: {error}"
        why: list[str] = []

        def refused(record: Record, error: NotExpressed) -> None:
            why.append(f"record {record.id}: {error}")

        one = next(expressed(self._fastest(func, machine, _TRIED), mod, refused), None)
        if one is not None:
            return one, machine
        return why[0] if why else self._why_nothing(func, machine)

    def _fastest(
        self, func: TensorFunction, machine: Machine, limit: int | None
    ) -> Iterator[Record]:
        """Return the records of a function, in the order in which ``sl.best`` prefers them."""
        found: list[list[Record]] = []
        for key in self._lookup.workload_keys(func):
            most = limit
            if most is None:
                most = self.database.count(key, machine.key, self.toolchain_key, Status.OK)
            found.append(
                best_first(
                    *(self.database, key, machine.key, self.toolchain_key, most),
                    verified=self.verified,
                )
            )
        # Of programs that differ in their attributes only, that with the fastest record first.
        found = sorted(filter(None, found), key=lambda records: records[0].latency)
        return islice(chain(*found), limit)

    def _why_nothing(self, func: TensorFunction, machine: Machine) -> str:
        keys = self._lookup.workload_keys(func)
        if not keys and self._lookup.unreadable:
            return f"its program is not found; {self._lookup.unreadable}"
        if not keys:
            return "its program is not in the database"
        records = [record for key in keys for record in self.database.query(key, status=Status.OK)]
        if not records:
            return "no record of it has a latency"
        here = [record for record in records if record.target_key == machine.key]
        if not here:
            others = ", ".join(sorted({record.target_key for record in records}))
            return f"it has no record for {machine.key}, but for {others}"
        here = [one for one in here if self.toolchain_key in (None, one.toolchain_key)]
        if not here:
            return f"it has no record of {self.toolchain_key}"
        return f"none of its {len(here)} records is verified; verified=False takes them"


def _tuning_record(one: Expressed, mod: TensorProgram, target: CompilerTarget) -> TuningRecord:
    return tvm_metaschedule.tuning_record(one.form.trace, mod, one.samples, target)


def as_tvm_database(
    database: Database | str | os.PathLike[str],
    target: Machine | str | None = None,
    *,
    toolchain_key: str | None = None,
    verified: bool = True,
) -> TVMDatabase:
    """Return a view of a schedlang database in which TVM's passes find records.

    ::

        with tvm_target, as_tvm_database("tune.db") as view:
            mod = relax.transform.MetaScheduleApplyDatabase()(mod)
        print(view.used, view.missed)

    Parameters
    ----------
    database: a path (opened for reading; ``view.close()`` closes it) or a ``Database``.
    target: the machine whose records are used; by default the target that the pass asks for, or
        TVM's current target, or this machine.
    toolchain_key: use only records of this toolchain; by default all.
    verified: use only records whose results were compared with the unscheduled program's.

    A function is found by its program; its name and attributes such as ``op_pattern`` are ignored.
    The trace is applied to the function that the pass asks for. What TVM's traces cannot hold is
    left out of it; ``partial`` and a ``PartialTraceWarning`` say what.

    Raises ``DatabaseError`` when the file cannot be opened, ``TargetError`` for an unknown target.
    """
    machine = None if target is None else as_machine(target)
    return TVMDatabase(database, machine, toolchain_key, verified)
