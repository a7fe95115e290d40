"""Records as programs that need TVM alone."""

from __future__ import annotations

import time

from schedlang.database import Database, Record
from schedlang.errors import DatabaseError
from schedlang.formats.python import comment
from schedlang.language.schedule import Trace
from schedlang.measurement import describe_latency
from schedlang.tvm import metaschedule as tvm_metaschedule
from schedlang.workloads.workload import Workload


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
