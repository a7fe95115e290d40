"""One use of an instruction, right or wrong, as a row of a group's table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from schedlang.language.schedule import Schedule
from schedlang.workloads.workload import Workload

Apply = Callable[[Schedule], object]


@dataclass(frozen=True, slots=True)
class Case:
    """A correct use; the golden text of the same name shows the program before and after.

    Attributes
    ----------
    workload: makes the program.
    apply: uses the instructions on a schedule of it.
    not_run: why its numbers are not compared on the CPU; empty when they are.
    no_tvm_trace: what is said when a trace of TVM cannot hold it; empty when it can.
    no_tvm_file: what is said when TVM's JSON files do not bring it back; empty when they do.
    """

    name: str
    workload: Callable[[], Workload]
    apply: Apply
    not_run: str = ""
    no_tvm_trace: str = ""
    no_tvm_file: str = ""


@dataclass(frozen=True, slots=True)
class Misuse:
    """A wrong use, and its expected message.

    Attributes
    ----------
    instruction: its name.
    apply: the use; the call of the instruction stands on one line of the table's file.
    argument: the offending argument and its value, as the message shows them.
    reason: a regular expression for the one line that says why.
    program: a line of the part of the program that TVM underlines; empty when it is not asked.
    """

    instruction: str
    workload: Callable[[], Workload]
    apply: Apply
    argument: str
    reason: str
    program: str = ""


@functools.cache
def scheduled(case: Case) -> Schedule:
    """Return the schedule of a case; it is cached, so do not change it."""
    sch = Schedule(case.workload(), seed=0)
    case.apply(sch)
    return sch
