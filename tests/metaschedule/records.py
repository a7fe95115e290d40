"""Synthetic schedlang records: drawn from the default space, with made-up latencies."""

from __future__ import annotations

from typing import Any

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.measurement import Status
from schedlang.tvm.program import to_json

TARGET = sl.Target("cpu", cores=2)


def record_of(workload: sl.Workload, trace: sl.Trace, seconds: float, **changed: Any) -> Record:
    """A verified record of a trace."""
    fields: dict[str, Any] = {
        "workload_key": workload.key,
        "workload_name": workload.name,
        "target_key": TARGET.key,
        "toolchain_key": "t",
        "trace_json": trace.to_json(),
        "status": Status.OK,
        "samples": (seconds, seconds * 2, seconds * 3),
        "message": "",
        "verified": True,
        "search": "made up",
        "seed": 0,
        "created": 1.7e9,
    }
    return Record(**{**fields, **changed})


def add_drawn(database: Database, workload: sl.Workload, count: int = 2) -> list[sl.Schedule]:
    """Put ``count`` schedules of a workload into a database, the first one the fastest."""
    space = sl.default_space(TARGET).without("vector_math")
    database.put_workload(workload.key, workload.name, to_json(workload.mod))
    schedules = [space.sample(workload, seed=seed) for seed in range(count)]
    database.append(
        record_of(workload, sch.trace, 1e-6 * (number + 1)) for number, sch in enumerate(schedules)
    )
    return schedules
