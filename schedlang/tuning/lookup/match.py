"""A record that fits a workload, the program that it makes of it, and where such records are.

``Match`` is what look-ups return. Records of the workload itself, and of programs that compute
the same, are looked for here, on one kind of machine; schedules of relatives are in
``relatives``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from schedlang.database import Database, Record, Timing, best_first, timing_in
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import DatabaseError
from schedlang.interpreters.stored_trace import same_steps
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import describe_latency
from schedlang.printed import html_method
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.records import packed_ahead
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction, TensorProgram


# -- A match --------------------------------------------------------------------------------------

Kind = Literal["same", "exact", "device", "family", "kin", "default"]

UNVERIFIED = "there are faster records that were not verified"
PACKED = "the latency leaves out packing, which sl.compile_network does once, ahead of all calls"


@dataclass(frozen=True)
class Match:
    """A record that fits a workload, and the program it makes of it.

    Attributes
    ----------
    workload: what was looked up.
    record: as it was measured; of ``workload`` itself, or of another that computes the same. It may
        be that of the unscheduled program, where no candidate is faster.
    schedule: the record's trace, applied.
    kind: ``"same"`` if the record is of this program, up to names; ``"exact"`` if it is of a
        program with the same exact key, which computes the same function. Of the others, ``record``
        is that of a measurement that the look-up made: ``"device"`` if the schedule was found on
        another machine; ``"family"`` if it is of a similar program; ``"kin"`` if it is of a program
        of other shapes; ``"default"`` if none of these was faster than the default schedule.
    notes: differences that matter, as text: another toolchain, another machine, another program.
    timing: samples of the record: of the newest finals that it was in, else of the search.
    """

    workload: Workload
    record: Record
    schedule: Schedule = field(repr=False)
    kind: Kind
    notes: tuple[str, ...]
    _target: Target = field(repr=False)
    _order: tuple[int, ...] = field(repr=False)
    timing: Timing = field(repr=False)

    _repr_html_ = html_method("program")

    @property
    def unscheduled(self) -> bool:
        """Whether it is the workload itself: keep the program as it is."""
        return self.record.unscheduled

    @property
    def latency(self) -> float:
        """Median latency in seconds: of the newest finals that the record was in, if any."""
        return self.timing.latency

    @property
    def trace(self) -> Trace:
        """The trace that makes the program."""
        return self.schedule.trace

    @cached_property
    def mod(self) -> TensorProgram:
        """The scheduled program, with the workload's name, parameters and attributes."""
        return program.as_main(self.in_place_of(self.workload.func))

    def in_place_of(self, func: TensorFunction) -> TensorFunction:
        """Return the scheduled program under the name of ``func``, the workload's own program."""
        made = self.schedule.mod[program.MAIN]
        return program.with_parameters(made, self._order, func)

    @property
    def _labelled(self) -> TensorProgram:
        return self.workload.labelled(self.mod)

    def build(self) -> Any:
        """Compile it: a callable on numpy arrays, see ``targets.build_callable``.

        Where weights were packed ahead, it packs them in each call, which ``latency`` leaves out.
        """
        return self._target.build(self._labelled)

    def as_torch_op(self, name: str) -> Any:
        """Compile it into an operator of torch such as ``"mylib::gemm"``.

        ``CompiledFunction.as_torch_op`` has the rest.
        """
        return self.build().main.as_torch_op(name)

    def export_library(self, path: str | Path) -> Path:
        """Compile it into a shared library, which can be loaded without Python."""
        return self._target.export_library(self._labelled, path)

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Compile it into a library for C that needs no TVM, see ``Target.export_c``."""
        return self._target.export_c(self._labelled, path, name=name, compiler=compiler)

    def __str__(self) -> str:
        shown = describe_latency(self.latency, self.workload.flops)
        if self.unscheduled:
            shown += "; keep the program as it is: no candidate is faster"
        return "; ".join((f"{self.workload.name}: {shown}", *self.notes))


# -- Records of the workload itself, and of programs that compute the same ------------------------

RECORDS = 16
"""Number of records of a workload that are tried."""
WORKLOADS = 8
"""Number of workloads with the same exact key that are looked at."""


def equal(
    workload: Workload,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match | None:
    """Return the best record of another program that computes the same."""
    for key, _ in database.workloads(exact_key=workload.exact_key)[:WORKLOADS]:
        if key != workload.key:
            found = first_usable(workload, key, "exact", target, database, unreadable, left_out)
            if found is not None:
                return found
    return None


def first_usable(
    workload: Workload,
    key: str,
    kind: Kind,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match | None:
    """Return the best record under a key that still applies; preferably of this toolchain."""
    source = unreadable.workload(database, key)
    if source is None or (kind == "same" and source != workload):
        return None  # of two programs with one hash
    order = _parameter_order(source, workload)
    if order is None:
        return None
    for toolchain in (toolchain_key(),) if database.frozen else (toolchain_key(), None):
        for record in best_first(database, key, target.key, toolchain, n=RECORDS):
            if record.id in left_out:
                continue
            notes = []
            if record.unscheduled:
                schedule: Schedule | None = Schedule(workload)
                order = tuple(range(len(workload.args)))
                [fastest] = database.best(key, target.key, toolchain)
                if not fastest.verified:
                    notes.append(UNVERIFIED)
            else:
                # Blocks may have other names in the program that was stored first.
                programs = (source, workload) if kind == "same" else (source,)
                schedule = replayed(record, *programs, unreadable=unreadable)
                if schedule is not None and _is_another(record, schedule):
                    reason = f"host {record.provenance['host']} measured another program"
                    unreadable.note_record(record, DatabaseError(reason))
                    continue
            if schedule is not None:
                if kind == "exact":
                    notes.append(f"tuned as {record.workload_name!r}, which computes the same")
                if packed_ahead(record):
                    notes.append(PACKED)
                if toolchain is None:
                    notes.append(f"measured with another toolchain: {record.toolchain_key}")
                timing = timing_in(database, record)
                return Match(workload, record, schedule, kind, tuple(notes), target, order, timing)
    return None


def _is_another(record: Record, schedule: Schedule) -> bool:
    """Whether a host has sent a trace that makes another program than the one it names.

    A trace to which reading adds what older ones lack was another one when it was measured.
    """
    if "host" not in record.provenance or record.program_key == schedule.program_key:
        return False
    return same_steps(record.trace_json, schedule.trace.to_json())


def _parameter_order(source: Workload, workload: Workload) -> tuple[int, ...] | None:
    """Return the place in ``source`` of each parameter of ``workload``; None if shapes differ."""
    if source.key == workload.key:
        return tuple(range(len(workload.args)))
    theirs, ours = source.structure, workload.structure
    place = dict(zip(ours.parameters, theirs.parameters, strict=True))
    order = tuple(place[position] for position in range(len(workload.args)))
    for argument, other in zip(workload.args, order, strict=True):
        found = source.args[other]
        if (argument.shape, argument.dtype) != (found.shape, found.dtype):
            return None
    return order


def frozen_winner(
    workload: Workload,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match:
    """Return the winner of a frozen database; DatabaseError where it is not there, or is refused.

    Which one it is does not depend on what this process can replay: that of the very program, else
    the fastest of those that compute the same.
    """
    keys = target.key, toolchain_key()
    others = [key for key, _ in database.workloads(exact_key=workload.exact_key)]
    records = database.query(workload.key, *keys) or [
        one for key in others for one in database.query(key, *keys)
    ]
    reason = "it was not frozen with it"
    if records:
        winner = min(records, key=lambda one: (timing_in(database, one).latency, one.id))
        kind: Kind = "same" if winner.workload_key == workload.key else "exact"
        found = first_usable(
            workload, winner.workload_key, kind, target, database, unreadable, left_out
        )
        # The unscheduled form of an equal program has a key of its own.
        if found is not None and (
            found.unscheduled or found.schedule.program_key == winner.program_key
        ):
            return found
        reason = "its winner cannot be compiled here"
        if found is not None:
            reason = "its winner makes another program here than where it was measured"
        elif unreadable:
            reason = unreadable.listed
    elif elsewhere := [one for key in {workload.key, *others} for one in database.query(key)]:
        reason = f"its winner is of {elsewhere[0].target_key} and {elsewhere[0].toolchain_key}"
    raise DatabaseError(
        f"the frozen database {database.path} has no program for {workload.name} on {keys[0]} "
        f"with {keys[1]}: {reason}; tune it, and freeze again"
    )
