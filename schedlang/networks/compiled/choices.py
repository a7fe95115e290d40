"""Which program each function of a network gets: of a database, by default, or its own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from schedlang.database import Database, Record, Timing, timing_in
from schedlang.errors import WorkloadError
from schedlang.measurement import Status
from schedlang.tuning.defaults.many import Default
from schedlang.tuning.lookup import UNVERIFIED, LookUp, UntunedWarning, was_tuned
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction

Origin = Literal["tuned", "default", "hasty", "unscheduled"]
"""Where a program comes from."""


@dataclass(frozen=True)
class Choice:
    """A program for a function.

    Attributes
    ----------
    origin: ``"tuned"`` for a record's; ``"default"`` for one that was not measured; ``"hasty"``
        for one that, moreover, there was no time to compare with others; ``"unscheduled"`` for the
        function as it is.
    func: the program, in place of the function; None for the function as it is.
    timing: of its record in the database; None without one.
    unscheduled_latency: of the function as it is, in seconds, from the same toolchain; NaN where
        that was not measured.
    """

    origin: Origin
    func: TensorFunction | None = None
    timing: Timing | None = None
    unscheduled_latency: float = math.nan

    @property
    def record(self) -> Record | None:
        """Its record in the database; None without one."""
        return None if self.timing is None else self.timing.record

    @property
    def latency(self) -> float:
        """Of the record, in seconds; NaN without one."""
        return math.nan if self.timing is None else self.timing.latency


def recorded(workload: Workload, func: TensorFunction, look_up: LookUp) -> Iterator[Choice]:
    """Yield the programs of a database for a function, the best one first.

    What follows the first is for a program that cannot be compiled. ``func`` is the workload's
    function in the network. There are none where only the unscheduled program was measured.
    """
    database = look_up.database
    tried: set[int | None] = set()
    while True:
        try:
            found = look_up.find(workload, tried)
        except WorkloadError as error:  # of measuring it
            text = f"{workload.name}: nothing can be tried on it: {error}"
            warnings.warn(text, UntunedWarning, stacklevel=4)
            return
        if found is None or found.record.id in tried:
            return
        if found.unscheduled and not was_tuned(found.record, database):
            return  # nobody looked for a faster one
        if found.unscheduled and UNVERIFIED in found.notes:
            text = f"{workload.name} stays unscheduled: {UNVERIFIED}; tune it with verify=True"
            warnings.warn(text, UntunedWarning, stacklevel=4)
        if found.kind not in ("same", "exact"):
            text = f"{workload.name}: {found.notes[0]}"
            warnings.warn(text, UntunedWarning, stacklevel=4)
        latency = _unscheduled_latency(found.record, database)
        if found.unscheduled:
            yield Choice("unscheduled", None, found.timing, latency)
            return
        yield Choice("tuned", found.in_place_of(func), found.timing, latency)
        tried.add(found.record.id)


def defaulted(func: TensorFunction, default: Default) -> Iterator[Choice]:
    """Yield the default program of a function that has no record, if there is one."""
    schedule = default.schedule
    if len(schedule.trace):
        order = range(len(func.params))
        made = program.with_parameters(schedule.mod[program.MAIN], order, func)
        yield Choice("hasty" if default.hasty else "default", made)


def _unscheduled_latency(record: Record, database: Database) -> float:
    """Of the unscheduled program that was measured with a record."""
    found = database.query(
        record.workload_key,
        record.target_key,
        record.toolchain_key,
        Status.OK,
        program_key=record.workload_key,
    )
    latencies = (timing_in(database, one).latency for one in found if one.unscheduled)
    return min(latencies, default=math.nan)
