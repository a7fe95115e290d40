"""Records and runs as rows of SQLite tables, and back."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import lru_cache
from typing import Any, TypeVar

from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import LONGEST_STATE, Ask, Run
from schedlang.measurement import Status
from schedlang.measurement.disturbance import Disturbance

T = TypeVar("T")

_INT64 = 1 << 63
# Half of a character, which is no text in UTF-8.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_TEXT = (str,)
_PACKED = (str, bytes)
_INT = (int,)
_REAL = (float,)
_NULL = type(None)
_KINDS = {str: "text", bytes: "a blob", int: "an integer", float: "a real number", _NULL: "NULL"}

Columns = Mapping[str, tuple[type, ...]]
Pack = Callable[[str], str | bytes]

# The columns that are read, in order, with the types that their values may have.
_RECORD: Columns = {
    "workload_key": _TEXT,
    "workload_name": _TEXT,
    "target_key": _TEXT,
    "toolchain_key": _TEXT,
    "trace_json": _PACKED,
    "status": _TEXT,
    "samples": _TEXT,
    "message": _TEXT,
    "verified": _INT,
    "search": _TEXT,
    "seed": (str, _NULL),
    "created": _REAL,
    "stderr": _TEXT,
    "program_key": _TEXT,
    "run_id": (int, _NULL),
    "proposal": (int, _NULL),
    "disturbance": _TEXT,
}
_RECORD_READ: Columns = {**_RECORD, "provenance": (str, _NULL), "id": _INT}
_RUN: Columns = {
    "identity": _TEXT,
    "workload_key": _TEXT,
    "target_key": _TEXT,
    "toolchain_key": _TEXT,
    "search": _TEXT,
    "seed": _TEXT,
    "created": _REAL,
    "known": _INT,
    "owner": _TEXT,
    "state": _PACKED,
    "state_asks": _INT,
    "outcome": _TEXT,
    "notes": _TEXT,
    "tags": _TEXT,
}
_RUN_READ: Columns = {**_RUN, "id": _INT}
_FINAL_READ: Columns = {
    "held": _REAL,
    "place": _INT,
    "status": _TEXT,
    "samples": _TEXT,
    "record_id": _INT,
}
_ASK_READ: Columns = {"size": _INT, "seconds": _REAL, "run_id": _INT}

INSERT_RECORD = (
    f"INSERT INTO record ({', '.join(_RECORD)}, provenance_id, latency) "
    f"VALUES ({', '.join('?' * (len(_RECORD) + 2))})"
)
SELECT_RECORDS = (
    f"SELECT {', '.join(_RECORD)}, provenance.text, record.id FROM record "
    "LEFT JOIN provenance ON provenance.id = provenance_id"
)
# Of a file that does not tell how far samples were disturbed.
SELECT_OLD_RECORDS = SELECT_RECORDS.replace(" disturbance,", " '',")
INSERT_FINAL = (
    "INSERT INTO final (held, place, status, samples, record_id) "
    "SELECT ?, ?, ?, ?, id FROM record WHERE id = ?"
)
SELECT_FINALS = (
    "SELECT held, place, final.status, final.samples, record_id FROM final "
    "JOIN record ON record.id = record_id"
)
INSERT_RUN = f"INSERT INTO run ({', '.join(_RUN)}) VALUES ({', '.join('?' * len(_RUN))})"
SELECT_RUN = f"SELECT {', '.join(_RUN)}, id FROM run"
# Of a file that has no notes.
SELECT_OLD_RUN = SELECT_RUN.replace("notes, tags,", "'', '[]',")
SELECT_ASKS = f"SELECT {', '.join(_ASK_READ)} FROM ask"


def row_of(record: Record, provenance_id: int | None, pack: Pack) -> tuple[object, ...]:
    """Return the values of ``INSERT_RECORD``; ``pack`` is that of the connection."""
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
        "" if record.disturbance is None else json.dumps(astuple(record.disturbance)),
        provenance_id,
        record.latency if record.ok else None,
    )


def record_of(row: Sequence[Any]) -> Record:
    """Return the record of a row of ``SELECT_RECORDS``.

    ValueError, TypeError, OverflowError or RecursionError where it is none.
    """
    check_types(row, _RECORD_READ)
    (workload_key, workload_name, target_key, toolchain_key, trace_json, *rest) = row
    (status, samples, message, verified, search, seed, created, stderr, *rest) = rest
    (program_key, run_id, proposal, disturbance, provenance, number) = rest
    return Record(
        workload_key=workload_key,
        workload_name=workload_name,
        target_key=target_key,
        toolchain_key=toolchain_key,
        trace_json=_unpacked("trace_json", trace_json),
        status=read_as(Status, "status", status),
        samples=_numbers("samples", samples),
        message=message,
        verified=bool(verified),
        search=search,
        seed=None if seed is None else _whole("seed", seed),
        created=created,
        id=number,
        stderr=stderr,
        program_key=program_key,
        provenance={} if provenance is None else _texts(provenance),
        run_id=run_id,
        proposal=proposal,
        disturbance=_disturbance(disturbance),
    )


def final_row(entry: FinalsEntry) -> tuple[object, ...]:
    """Return the values of ``INSERT_FINAL``."""
    samples = json.dumps(entry.samples)
    return (entry.held, entry.place, str(entry.status), samples, entry.record_id)


def final_of(row: Sequence[Any]) -> FinalsEntry:
    """Return the entry of a row of ``SELECT_FINALS``; ValueError or TypeError where it is none."""
    check_types(row, _FINAL_READ)
    held, place, status, samples, record_id = row
    return FinalsEntry(
        record_id, held, place, read_as(Status, "status", status), _numbers("samples", samples)
    )


def provenance_text(provenance: Mapping[str, str]) -> str | None:
    """Return a text that is equal for equal provenances; None for an empty one."""
    return json.dumps(dict(provenance), sort_keys=True) if provenance else None


def check_types(row: Sequence[Any], columns: Columns) -> None:
    """TypeError for a value that its column should not hold: SQLite's hold values of any type."""
    if all(map(isinstance, row, columns.values())):
        return
    for (name, kinds), value in zip(columns.items(), row, strict=True):
        if not isinstance(value, kinds):
            expected = " or ".join(_KINDS[kind] for kind in kinds)
            raise TypeError(f"column {name!r}: expected {expected}, got {_KINDS[type(value)]}")


def read_json(text: str) -> Any:
    """Return the value of a JSON text from elsewhere.

    ValueError for what SQLite could not store: a number beyond 64 bits, NaN, a text that is no
    Unicode; and for values that are nested too deeply.
    """
    try:
        found = _READER.decode(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    if _SURROGATE.search(text):
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _whole_number(text: str) -> int:
    if len(text) > 20 or not -_INT64 <= (number := int(text)) < _INT64:
        raise ValueError(f"the integer {text[:24]} is beyond 64 bits")
    return number


def _real_number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:24]} is not finite")
    return number


_READER = json.JSONDecoder(
    parse_int=_whole_number, parse_float=_real_number, parse_constant=_real_number
)


def _numbers(column: str, text: str) -> tuple[float, ...]:
    stored = read_as(json.loads, column, text)
    if not isinstance(stored, list) or not all(type(one) in (int, float) for one in stored):
        raise TypeError(f"column {column!r}: expected a JSON list of numbers")
    return tuple(map(float, stored))


def _disturbance(text: str) -> Disturbance | None:
    if not text:
        return None
    numbers = _numbers("disturbance", text)
    if len(numbers) != 4:
        raise ValueError("column 'disturbance': expected four numbers")
    undisturbed, disturbed, low, high = numbers
    return Disturbance(int(undisturbed), int(disturbed), low, high)


@lru_cache(maxsize=64)  # those of a file are mostly equal
def _texts(text: str) -> Mapping[str, str]:
    stored = read_as(read_json, "provenance", text)
    if not isinstance(stored, dict):
        raise TypeError("column 'provenance': expected a JSON object")
    return {name: str(value) for name, value in stored.items()}


def read_as(make: Callable[[str], T], column: str, text: str) -> T:
    """Return what ``make`` makes of a text; its ValueError names the column."""
    try:
        return make(text)
    except ValueError as error:
        raise ValueError(f"column {column!r}: {error}") from None


def _whole(column: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"column {column!r}: expected a whole number as text") from None


def _unpacked(column: str, stored: str | bytes) -> str:
    try:
        return unpack(stored)
    except ValueError as error:
        raise ValueError(f"{error}, in column {column!r}") from None


def run_row(run: Run, pack: Pack) -> tuple[object, ...]:
    """Return the values of ``INSERT_RUN``; ``pack`` is that of the connection."""
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
        run.notes,
        json.dumps(run.tags),
    )


def run_of(row: Sequence[Any]) -> Run:
    """Return the run of a row of ``SELECT_RUN``; ValueError or TypeError where it is none."""
    check_types(row, _RUN_READ)
    stored = dict(zip(_RUN_READ, row, strict=True))
    stored["seed"] = _whole("seed", stored["seed"])
    stored["state"] = _unpacked("state", stored["state"])
    stored["tags"] = read_as(read_json, "tags", stored["tags"])
    return Run(**stored)


def ask_of(row: Sequence[Any]) -> Ask:
    """Return the ask of a row of ``SELECT_ASKS``; TypeError where it is none."""
    check_types(row, _ASK_READ)
    return Ask(row[0], row[1])


def texts_of(columns: Sequence[str], row: Sequence[Any]) -> tuple[str, ...]:
    """Return the values of columns that hold text, without the id that follows them.

    TypeError where one does not.
    """
    *texts, _ = row
    check_types(texts, dict.fromkeys(columns, _TEXT))
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
    """Return the clause `` WHERE ...`` for what is given, or ``""``, and its values."""
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


# -- Long texts as SQLite stores them: compressed, and with a checksum ----------------------------

# Shorter ones are stored as they are.
_SHORT = 256
_LEAST_WINDOW = 9
# Of zlib: traces get a tenth longer than with the usual level, in two thirds of the time. What is
# written often, and replaced, is packed faster still.
_LEVEL, _FAST = 3, 1
# A few bytes can expand to any length: longer texts are refused.
MAX_BYTES = LONGEST_STATE


def pack(text: str, *, replaced: bool = False) -> str | bytes:
    """Return what to store for a text; a trace gets about 5 times shorter.

    One that will be ``replaced`` soon, such as the state of a search, gets less short.
    """
    if len(text) < _SHORT:
        return text
    content = text.encode("utf-8")
    # A window beyond the text costs as long as compressing a trace does.
    window = min(max(len(content).bit_length(), _LEAST_WINDOW), zlib.MAX_WBITS)
    level = _FAST if replaced else _LEVEL
    writer = zlib.compressobj(level, wbits=window)
    return writer.compress(content) + writer.flush()


def unpack(stored: str | bytes) -> str:
    """Return the text of what ``pack`` returned; older files hold the text itself.

    ValueError where a byte has changed, or the text is too long.
    """
    if isinstance(stored, str):
        return stored
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(stored, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"a compressed text is damaged: {error}") from None
    if not reader.eof:
        raise ValueError("a compressed text is cut off, or too long")
    return content.decode("utf-8")
