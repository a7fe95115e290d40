"""Records and runs as rows of SQLite tables, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.database.record import Record
from schedlang.database.run import Ask, Run
from schedlang.database.sqlite.packing import pack, unpack
from schedlang.measurement import Status

RECORD_COLUMNS = (
    "workload_key, workload_name, target_key, toolchain_key, trace_json, status, samples, "
    "message, verified, search, seed, created, stderr, program_key, run_id, proposal"
)
INSERT_RECORD = (
    f"INSERT INTO record ({RECORD_COLUMNS}, provenance_id, latency) VALUES ({', '.join('?' * 18)})"
)
SELECT_RECORDS = (
    f"SELECT {RECORD_COLUMNS}, provenance.text, record.id FROM record "
    "LEFT JOIN provenance ON provenance.id = provenance_id"
)
RUN_COLUMNS = (
    "identity, workload_key, target_key, toolchain_key, search, seed, created, known, owner, "
    "state, state_asks, outcome"
)
INSERT_RUN = f"INSERT INTO run ({RUN_COLUMNS}) VALUES ({', '.join('?' * 12)})"
SELECT_RUN = f"SELECT {RUN_COLUMNS}, id FROM run"


_TEXT = (str,)
_PACKED = (str, bytes)
_MAYBE_INT = (int, type(None))
_MAYBE_TEXT = (str, type(None))
# As they stand in SELECT_RECORDS and SELECT_RUN.
_RECORD_TYPES = (
    *_TEXT * 4,
    _PACKED,
    *_TEXT * 3,
    int,
    str,
    _MAYBE_TEXT,
    float,
    *_TEXT * 2,
    *(_MAYBE_INT, _MAYBE_INT),
    _MAYBE_TEXT,
    int,
)
_RUN_TYPES = (*_TEXT * 6, float, int, str, _PACKED, int, str, int)


def row_of(record: Record, provenance_id: int | None) -> tuple[object, ...]:
    """The values of ``INSERT_RECORD``."""
    return (
        record.workload_key,
        record.workload_name,
        record.target_key,
        record.toolchain_key,
        pack(record.trace_json),
        str(record.status),
        json.dumps(record.samples),
        record.message,
        record.verified,
        record.search,
        None if record.seed is None else str(record.seed),
        record.created,
        record.stderr,
        record.program_key,
        record.run_id,
        record.proposal,
        provenance_id,
        record.latency if record.ok else None,
    )


def record_of(row: Sequence[Any]) -> Record:
    """The record of a row of ``SELECT_RECORDS``; ValueError, TypeError, OverflowError or
    RecursionError for one that is none.
    """
    _check_types(row, _RECORD_TYPES)
    (workload_key, workload_name, target_key, toolchain_key, trace_json, *rest) = row
    (status, samples, message, verified, search, seed, created, stderr, *rest) = rest
    (program_key, run_id, proposal, provenance, number) = rest
    return Record(
        workload_key=workload_key,
        workload_name=workload_name,
        target_key=target_key,
        toolchain_key=toolchain_key,
        trace_json=unpack(trace_json),
        status=Status(status),
        samples=_numbers(samples),
        message=message,
        verified=bool(verified),
        search=search,
        seed=None if seed is None else int(seed),
        created=created,
        id=number,
        stderr=stderr,
        program_key=program_key,
        provenance={} if provenance is None else _texts(provenance),
        run_id=run_id,
        proposal=proposal,
    )


def provenance_text(provenance: Mapping[str, str]) -> str | None:
    """One text for equal provenances; None for an empty one."""
    return json.dumps(dict(provenance), sort_keys=True) if provenance else None


def _check_types(row: Sequence[Any], types: Sequence[type | tuple[type, ...]]) -> None:
    """SQLite's columns hold values of any type; TypeError for one that ours does not."""
    for value, kind in zip(row, types, strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"a {type(value).__name__} stands where another type belongs")


def _numbers(text: str) -> tuple[float, ...]:
    stored = json.loads(text)
    if not isinstance(stored, list):
        raise TypeError("samples are a list")
    if not all(type(sample) in (int, float) for sample in stored):
        raise TypeError("samples are numbers")
    return tuple(map(float, stored))


def _texts(text: str) -> dict[str, str]:
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise TypeError("a provenance is an object")
    return {name: str(value) for name, value in stored.items()}


def run_row(run: Run) -> tuple[object, ...]:
    """The values of ``INSERT_RUN``."""
    return (
        run.identity,
        run.workload_key,
        run.target_key,
        run.toolchain_key,
        run.search,
        str(run.seed),
        run.created,
        run.known,
        run.owner,
        pack(run.state),
        run.state_asks,
        run.outcome,
    )


def run_of(row: Sequence[Any]) -> Run:
    """The run of a row of ``SELECT_RUN``; ValueError or TypeError for one that is none."""
    _check_types(row, _RUN_TYPES)
    *fields, number = row
    fields[5] = int(fields[5])
    fields[9] = unpack(fields[9])
    return dataclasses.replace(Run(*fields), id=number)


def ask_of(row: Sequence[Any]) -> Ask:
    """The ask of a size, seconds and a run's id; TypeError for one that is none."""
    _check_types(row, (int, float, int))
    return Ask(row[0], row[1])


def texts_of(row: Sequence[Any]) -> tuple[str, ...]:
    """The texts of a program, without its number; TypeError for what is no text."""
    *texts, _ = row
    _check_types(texts, [str] * len(texts))
    return tuple(texts)


def conditions(
    workload_key: str | None = None,
    target_key: str | None = None,
    toolchain_key: str | None = None,
    status: Status | None = None,
    program_key: str | None = None,
    run_id: int | None = None,
    after: int | None = None,
) -> tuple[str, list[object]]:
    """`` WHERE ...`` for what is given, or ``""``, and its values."""
    given: dict[str, object] = {
        "workload_key =": workload_key,
        "target_key =": target_key,
        "toolchain_key =": toolchain_key,
        "status =": None if status is None else str(status),
        "program_key =": program_key,
        "run_id =": run_id,
        "record.id >": after,
    }
    wanted = {column: value for column, value in given.items() if value is not None}
    where = " AND ".join(f"{column} ?" for column in wanted)
    return (f" WHERE {where}" if where else ""), list(wanted.values())
