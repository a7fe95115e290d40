"""schedlang's records as TVM's traces; TVM must make the same program of each."""

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
    """A record that TVM's traces cannot express.

    Attributes
    ----------
    reason: a short text for counting; stable between versions.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: {detail}")


def as_tvm_trace(record: Record, mod: IRModule) -> tuple[Any, IRModule]:
    """Return a TVM trace of a record for a module of one function, and the program it makes.

    Raises ``NotExpressed`` when the trace cannot be read or applied, has an instruction that TVM's
    traces cannot hold, or makes another program in TVM.
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
    """Raise ``NotExpressed`` unless both modules hold the same function, attributes aside."""
    functions = [tvm_metaschedule.only_function(mod) for mod in (ours, theirs)]
    one, other = (None if func is None else origin_free(func) for func in functions)
    if one is None or other is None or not program.structurally_equal(one, other):
        raise NotExpressed("another program", "TVM makes another program of its trace")
