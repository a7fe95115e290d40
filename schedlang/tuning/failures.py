"""``explain_failure()``: the first instruction of a trace after which a program fails.

A record that failed is replayed in parts (``failing_prefix``), and the first instruction after
which the program fails is looked at: where it is written, and which instruction of a macro is at
fault. A run explains its first wrong result so at its end.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from schedlang.database import Database, Record
from schedlang.database.opening import opened_for_reading
from schedlang.database.programs import Unreadable
from schedlang.errors import SchedlangError
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Macro
from schedlang.interpreters.python import statement
from schedlang.interpreters.replay import block_of
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer, Status, SupportsMeasure
from schedlang.measurement.measurer import bind_to_call
from schedlang.measurement.problem import ComputeReference, GivenTolerance, Inputs, Problem
from schedlang.targets import Target, as_target
from schedlang.tuning.failing_prefix import (
    INVALID,
    LATE,
    FailureExplanation,
    Prefix,
    Prefixes,
    Suspect,
)
from schedlang.tuning.measuring import describe_problem, own_problem, reserve_measurer
from schedlang.tuning.records import verification_of
from schedlang.tvm import program
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload, living_workload

__all__ = [
    "FailureExplanation",
    "Prefix",
    "Suspect",
    "explain_failure",
]


# -- From a record to the first instruction at fault ----------------------------------------------

SECONDS = 60.0


def explain_failure(
    record: Record,
    database: Database | str | os.PathLike[str] | None = None,
    *,
    workload: Workload | None = None,
    target: Target | str | None = None,
    inputs: Inputs | None = None,
    tolerance: GivenTolerance | None = None,
    reference: ComputeReference | None = None,
    measurer: SupportsMeasure | None = None,
    seconds: float = SECONDS,
) -> FailureExplanation:
    """Return the first instruction of a failed record after which its program fails.

    Programs of the first 1, 2, ... instructions of the trace are built, run and compared with the
    unscheduled one, as candidates are, in worker processes with deadlines. Bisection keeps their
    number small. A program that fails before the failure can show, such as one that does not build,
    is left out: where the fault lies between two such programs, all instructions between them are
    suspects. In an instruction that is written in Python, the primitives that it ran are told apart
    in the same way.

    Parameters
    ----------
    record: a failed record: ``result.records[3]``, or one of a database.
    database: a path or ``Database`` with the record's program. Not needed where ``workload`` is
        given, or this process still has the workload, as ``result.workload`` for example.
    workload: the program before scheduling.
    target: the machine to measure on; by default that of the record.
    inputs, tolerance, reference: as they were given to ``tune``.
    measurer: measures the programs; by default the target's own. It must compare results.
    seconds: wall time after which no more programs are tried; the answer is then less precise.

    Raises TypeError for anything but a record, ``SchedlangError`` for a record that is OK or has no
    trace, and where its program is not known or its trace cannot be read, and ``TargetError`` where
    this machine cannot measure for the target.
    """
    _check(record)
    if not (isinstance(seconds, int | float) and seconds > 0):
        raise ValueError(f"seconds={seconds!r}; give a positive number of seconds")
    workload = _workload_of(record, database, workload)
    problem = Problem(inputs, tolerance, reference, "all", record.seed or 0)
    with ExitStack() as stack:
        if measurer is None:
            recorded = None if target is not None else Target.from_key(record.target_key)
            machine = as_target(target) if recorded is None else recorded.nearest_here()
            used = machine.measurer(workload, **problem.settings())
            stack.enter_context(used)
        else:
            key = record.target_key if target is None else as_target(target).key
            used = reserve_measurer(measurer, key, stack)
            problem = problem if used.kept else own_problem(measurer) or Problem()
            bind_to_call(used, workload, problem)
        deadline = used.clock.now() + seconds
        return explain_with(record, workload, used, problem, deadline)


def explain_with(
    record: Record,
    workload: Workload,
    measurer: Measurer,
    problem: Problem,
    deadline: float = math.inf,
    *,
    thorough: bool = True,
) -> FailureExplanation:
    """Return what ``explain_failure`` does, with a measurer that is bound to the workload.

    Without ``thorough``, programs before the one that bisection finds are not tried.
    """
    line = Trace.from_json(record.trace_json, workload).instructions
    prefixes = Prefixes(line, workload, measurer, deadline)
    whole = prefixes.whole()
    suspects: tuple[Suspect, ...] = ()
    complete = True
    if whole.status not in (Status.OK, LATE) and _unscheduled_is_fine(whole, prefixes):
        found = prefixes.locate(whole.status, thorough=thorough)
        complete = found.complete
        suspects = _suspects(line, found.good, found.bad)
        if len(suspects) == 1 and isinstance(line[suspects[0].number].kind, Macro):
            inner = _inside(line, suspects[0].number, whole.status, workload, measurer, prefixes)
            suspects = (_suspect(line, suspects[0].number, inner),)
    return FailureExplanation(
        record.id,
        workload.name,
        str(record.status),
        whole.status,
        whole.message,
        len(line),
        suspects,
        tuple(prefixes.tried[length] for length in sorted(prefixes.tried)),
        complete,
        tuple(_notes(record, problem, prefixes, suspects, whole, complete=complete)),
    )


def _check(record: object) -> None:
    if not isinstance(record, Record):
        more = ""
        if hasattr(record, "records"):
            more = "; give one of result.records whose status is not ok"
        elif isinstance(record, int):
            more = "; database.get([12])[0] is record 12"
        raise TypeError(f"explain_failure takes a record, not {type(record).__name__}{more}")
    if record.ok:
        raise SchedlangError(
            f"record {record.id} of {record.workload_name} is ok: nothing failed; explain_failure "
            "is for those with another status, and explain(result) says what made a winner fast"
        )
    if not record.trace_json:
        raise SchedlangError(
            f"record {record.id} of {record.workload_name} has no trace: {record.message}"
        )


def _workload_of(
    record: Record, database: Database | str | os.PathLike[str] | None, given: Workload | None
) -> Workload:
    if given is not None:
        given = as_workload(given)
        if given.key != record.workload_key:
            raise ValueError(
                f"workload={given.name!r} is another program than that of record {record.id}, "
                f"{record.workload_name} ({record.workload_key}): give the one that was tuned"
            )
        return given
    unreadable = Unreadable()
    found = living_workload(record.workload_key)
    if database is not None:
        with ExitStack() as stack:
            opened = opened_for_reading(database, stack)
            found = unreadable.workload(opened, record.workload_key, record.workload_name)
    if found is None:
        why = str(unreadable) or "it is not in the database"
        if database is None:
            why = "a record does not hold it; give database= that has it, or workload="
        raise SchedlangError(f"the program of record {record.id} is not known: {why}")
    return found


def _unscheduled_is_fine(whole: Prefix, prefixes: Prefixes) -> bool:
    """Whether the unscheduled program does not fail in the same way: it is what others must be."""
    if whole.status in (INVALID, Status.WRONG_RESULT):
        return True
    return prefixes.measure(0).status != whole.status


def _suspects(line: Line, good: int, bad: int) -> tuple[Suspect, ...]:
    return tuple(
        _suspect(line, place)
        for place in range(good, bad)
        if not line[place].kind.pure or bad == good + 1
    )


def _suspect(line: Line, place: int, inside: tuple[str, ...] = ()) -> Suspect:
    one = line[place]
    block = block_of(line, one)
    return Suspect(place, statement(one), one.module, block, _defined_at(one), inside)


def _defined_at(one: Instruction) -> str:
    """Return where an instruction is written in Python, as ``file:line``."""
    if one.kind.is_method:
        return ""
    function = inspect.unwrap(one.kind.function)
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def _inside(
    line: Line,
    place: int,
    status: str,
    workload: Workload,
    measurer: Measurer,
    outer: Prefixes,
) -> tuple[str, ...]:
    """Return the instructions that a macro runs and of which one is at fault; none if unknown."""
    try:
        before = Trace(line[:place], workload).flattened().instructions
        after = Trace(line[: place + 1], workload).flattened()
        whole = Trace(line[: place + 1], workload).replay().mod
        same = program.structurally_equal(after.replay().mod, whole)
    except SchedlangError:
        return ()
    flat, first = after.instructions, len(before)
    # What it did to the program by other means is in no instruction.
    if not same or len(flat) <= first:
        return ()
    inner = Prefixes(flat, workload, measurer, outer.deadline)
    found = inner.locate(status, first=first, thorough=False)
    return tuple(
        statement(flat[k])
        for k in range(max(found.good, first), found.bad)
        if not flat[k].kind.pure
    )


def _notes(
    record: Record,
    problem: Problem,
    prefixes: Prefixes,
    suspects: tuple[Suspect, ...],
    whole: Prefix,
    *,
    complete: bool,
) -> Iterator[str]:
    if describe_problem(problem).get("verification", "") != verification_of(record):
        yield (
            "the record's results were compared on inputs, with a tolerance or with a reference of "
            "the user's: give those that tune was given"
        )
    if prefixes.late():
        yield "the time was over before all programs were tried; give more seconds="
    elif not complete and suspects:
        yield "of the programs before, some were not tried or cannot be judged"
    if len(suspects) > 1:
        ends = sorted(
            {
                prefixes.tried[length].status
                for length in range(suspects[0].number + 1, suspects[-1].number + 1)
                if length in prefixes.tried
            }
        )
        if ends:
            yield f"the programs between the suspects end as {', '.join(ends)}"
    if not whole.message and whole.status == Status.OK and record.message:
        yield f"when it was recorded: {record.message}"


# -- What a run says at its end of its first wrong result -----------------------------------------

# A run does not take longer than this for it, and with less it does not begin.
_MOST_SECONDS, _LEAST_SECONDS = 5.0, 0.5


def first_fault(
    records: Sequence[Record],
    workload: Workload,
    measurer: Measurer,
    problem: Problem,
    seconds: float,
) -> str:
    """Return what the first wrong result is the fault of, in one line.

    ``seconds`` is the wall time left. Empty where nothing is wrong, or there is no time.
    """
    wrong = next((one for one in records if one.status is Status.WRONG_RESULT), None)
    if wrong is None or seconds < _LEAST_SECONDS:
        return ""
    deadline = measurer.clock.now() + min(seconds, _MOST_SECONDS)
    try:
        found = explain_with(wrong, workload, measurer, problem, deadline, thorough=False)
    except SchedlangError:
        return ""  # the run is done: `explain_failure` says why it cannot be explained
    return f"record {wrong.id}: {found.summary}"
