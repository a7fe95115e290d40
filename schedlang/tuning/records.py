"""What is measured as a record, and a record as what was measured."""

from __future__ import annotations

import time
from dataclasses import replace

from schedlang.database import Record
from schedlang.language.schedule import Schedule
from schedlang.measurement import Measurement, Status
from schedlang.targets import Target, toolchain_key
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload


def blank_record(workload: Workload, target: Target, search: str, seed: int | None) -> Record:
    """What the records of one workload, machine and search have in common."""
    return Record(
        workload_key=workload.key,
        workload_name=workload.name,
        target_key=target.key,
        toolchain_key=toolchain_key(),
        trace_json="",
        status=Status.REJECTED,
        samples=(),
        message="",
        verified=False,
        search=search,
        seed=seed,
        created=0.0,
        provenance=target.provenance(),
    )


def as_record(
    blank: Record, schedule: Schedule, measurement: Measurement, proposal: int | None = None
) -> Record:
    """``blank`` filled in with a program that was measured just now."""
    return replace(
        blank,
        trace_json=schedule.trace.to_json(),
        status=measurement.status,
        samples=measurement.samples,
        message=measurement.message,
        verified=measurement.verified,
        created=time.time(),
        stderr=measurement.stderr,
        program_key=structural_key(schedule.mod),
        proposal=proposal,
    )


def as_measurement(record: Record, number: int) -> Measurement:
    """What a search is told of a record, as of the candidate with this id."""
    return Measurement(
        number, record.status, record.samples, record.message, record.stderr, record.verified
    )
