"""One line of MetaSchedule's files: a program, or a record. A bad line raises ``Refused`` only."""

from __future__ import annotations

from typing import Any

from schedlang.errors import SchedlangError, TraceFormatError, WorkloadError
from schedlang.formats.document import parse, short
from schedlang.language.schedule import Schedule, Trace
from schedlang.metaschedule.lines import Line
from schedlang.metaschedule.reading import UnknownInstruction, read_trace
from schedlang.tvm import errors, program
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.workloads.construct import from_module
from schedlang.workloads.workload import Workload


class Refused(Exception):
    """A line that cannot be imported.

    Attributes
    ----------
    reason: a short text for counting; stable between versions.
    detail: what exactly is wrong.
    """

    def __init__(self, reason: str, detail: object) -> None:
        self.reason = reason
        self.detail = short(str(detail).strip(), 300)
        super().__init__(reason)


def workload_of(line: Line) -> Workload:
    """Return the workload of a line of the workload file."""
    if line.text is None:
        raise Refused("not JSON", "too long, or not UTF-8 text")
    try:
        mod = tvm_metaschedule.program_of_line(line.text)
        func = tvm_metaschedule.only_function(mod)
        workload = from_module(mod, program.symbol(func) if func is not None else None)
        Schedule(workload)  # TVM looks at all of it,
        _ = workload.structure  # and so do we
    except (ValueError, RecursionError, WorkloadError) as error:
        torn = not line.ended and not line.text.rstrip().endswith("]")
        raise Refused("torn line" if torn else "workload unreadable", error) from None
    except Exception as error:  # TVM's errors have many types
        raise Refused("workload unreadable", errors.reason_of(error)) from None
    return workload


def parts_of(line: Line) -> tuple[int, list[Any]]:
    """Return the number of a record's workload, and its trace, latencies, target, arguments."""
    if line.text is None:
        raise Refused("not JSON", "too long, or not UTF-8 text")
    try:
        document = parse(line.text)
    except TraceFormatError as error:
        torn = not line.ended and not line.text.rstrip().endswith("]")
        raise Refused("torn line" if torn else "not JSON", error.problem) from None
    if not isinstance(document, list) or len(document) != 2 or type(document[0]) is not int:
        raise Refused("not a record", "must be [number of the workload, record]")
    index, stored = document
    if not isinstance(stored, list) or len(stored) != 4:
        raise Refused("not a record", "must be [trace, seconds, target, arguments]")
    return index, stored


def samples_of(stored: Any) -> tuple[float, ...]:
    """Return the latencies in seconds; empty when MetaSchedule could not time it."""
    if stored is None:
        return ()
    if not isinstance(stored, list) or not all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in stored
    ):
        raise Refused("not a record", f"its latencies are {short(repr(stored))}")
    if any(item >= tvm_metaschedule.NO_TIME for item in stored):
        return ()
    if not all(item > 0 for item in stored):
        raise Refused("no latency", f"{short(repr(stored))}: a latency is positive, in seconds")
    return tuple(map(float, stored))


def trace_of(document: Any, workload: Workload) -> tuple[Trace, str]:
    """Return the trace, and the key of the program that schedlang and TVM both make of it."""
    try:
        trace = Trace.from_json(read_trace(document, workload).to_json(), workload)
        ours = trace.replay().mod
    except UnknownInstruction as error:
        raise Refused("unknown instruction", error) from None
    except TraceFormatError as error:
        raise Refused("bad trace", error) from None
    except Exception as error:  # TVM's errors have many types
        why = error if isinstance(error, SchedlangError) else errors.reason_of(error)
        raise Refused("does not apply", why) from None
    try:
        theirs = tvm_metaschedule.apply_stored(document, workload.mod)
    except Exception as error:  # TVM's errors have many types
        raise Refused("does not apply", f"TVM: {errors.reason_of(error)}") from None
    if not program.structurally_equal(ours, theirs):
        raise Refused("another program", "TVM makes another program of this trace")
    return trace, program.structural_key(ours)
