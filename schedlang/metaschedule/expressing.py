"""schedlang's records as TVM's traces, shown to make the same program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.database import Record
from schedlang.errors import SchedlangError, TraceFormatError
from schedlang.language.schedule import Trace
from schedlang.metaschedule.lookup import origin_free
from schedlang.tvm import errors, program
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from tvm.ir import IRModule


class NotExpressed(SchedlangError):
    """A record that no trace of TVM's makes.

    Attributes
    ----------
    reason: short stable words for counting.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {detail}")


def as_tvm_trace(record: Record, mod: IRModule) -> tuple[Any, IRModule]:
    """A TVM trace of a record for a module of one function, and the program that it makes.

    ``NotExpressed`` when the trace cannot be read or carried out, has a step that TVM's traces
    cannot hold, or when TVM makes another program of it.
    """
    try:
        workload = Workload(mod, record.workload_name or program.MAIN)
        trace = Trace.from_json(record.trace_json, workload)
        ours = trace.replay().mod
    except TraceFormatError as error:
        raise NotExpressed("unreadable trace", str(error)) from None
    except SchedlangError as error:
        raise NotExpressed("does not apply", str(error)) from None
    try:
        converted = trace.to_tvm_trace(workload)
        theirs = tvm_metaschedule.apply_trace(converted, mod)
    except SchedlangError as error:
        raise NotExpressed("no such step in TVM", str(error)) from None
    except Exception as error:  # TVM's errors have many types
        raise NotExpressed("TVM refuses it", errors.reason_of(error)) from None
    check_same(ours, theirs)
    return converted, theirs


def check_same(ours: IRModule, theirs: IRModule) -> None:
    """NotExpressed unless both modules hold the same function, but for attributes."""
    functions = [tvm_metaschedule.only_function(mod) for mod in (ours, theirs)]
    one, other = (None if func is None else origin_free(func) for func in functions)
    if one is None or other is None or not program.structurally_equal(one, other):
        raise NotExpressed("another program", "TVM makes another program of its trace")
