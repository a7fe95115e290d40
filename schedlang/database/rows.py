"""Rows of the tables: records, runs, and what is kept of runs besides."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from operator import itemgetter
from typing import Any, Generic, TypeVar, get_type_hints

from schedlang.codec import CodecError, codec_of, register
from schedlang.database.connection import AMONG, SQLiteConnection, unpack
from schedlang.database.file import is_alive
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Ask, Rejections, Run, RunDetails, TrialDetails
from schedlang.files import read_json
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase, check_phases
from schedlang.measurement.disturbance import Disturbance

T = TypeVar("T")

_NULL = type(None)
_KINDS = {str: "text", bytes: "a blob", int: "an integer", float: "a real number", _NULL: "NULL"}

# -- A dataclass as a row -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a table: the value of a field as SQLite stores it.

    Attributes
    ----------
    kinds: types that its values may have.
    read: returns the field's value; None where it is the column's. ValueError for another one.
    write: returns the column's value; None where it is the field's.
    packed: whether a long text is compressed, as the connection does it.
    """

    kinds: tuple[type, ...]
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    packed: bool = False


_load = json.JSONDecoder().decode


def json_column(kind: Any, load: Callable[[str], Any] = _load) -> StoredColumn:
    """Return the column of a field that is stored as JSON text; ``load`` reads the text."""
    codec = codec_of(kind)
    expected = f"expected a JSON {codec.noun.removeprefix('a ').removeprefix('an ')}"

    def read(text: str) -> Any:
        stored = load(text)
        try:
            return codec.read(stored)
        except CodecError as error:
            raise ValueError(f"{expected} ({error})") from None

    def write(value: Any) -> str:
        return json.dumps(value if codec.write is None else codec.write(value))

    return StoredColumn((str,), read, write)


def _whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValueError("expected a whole number as text") from None


def _text_of(number: int | None) -> str | None:
    return None if number is None else str(number)


PACKED = StoredColumn((str, bytes), unpack, None, packed=True)
WHOLE = StoredColumn((str,), _whole, _text_of)
"""A seed may be wider than SQLite's 64-bit integers."""


def _column(kind: Any) -> StoredColumn:
    """Return the column that suits a field of a type."""
    codec = codec_of(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return StoredColumn((str,), kind, str)
    if kind is bool:
        return StoredColumn((int,), bool)
    if kind is float:
        return StoredColumn((float,))
    if set(codec.kinds) <= _KINDS.keys():
        return StoredColumn(tuple(codec.kinds))
    return json_column(kind)


class RowTable(Generic[T]):
    """How values of a dataclass are rows.

    Parameters
    ----------
    kind: the dataclass.
    names: of the columns, in order. The last ones may be no fields, such as the id of the row's
        run: they are read and dropped.
    own: columns of fields whose types do not tell how they are stored, and of what is dropped.
    """

    def __init__(self, kind: type[T], names: str, **own: StoredColumn) -> None:
        hints = get_type_hints(kind)
        self._kind = kind
        columns = {name: own.get(name) or _column(hints[name]) for name in names.split()}
        self.names = tuple(columns)
        self._kinds = tuple(one.kinds for one in columns.values())
        self._readers = [
            (place, one.read) for place, one in enumerate(columns.values()) if one.read is not None
        ]
        self._fields = {name: one for name, one in columns.items() if name in hints}
        # What the class takes, in its order.
        self._taken = itemgetter(*[self.names.index(one) for one in signature(kind).parameters])

    def row(self, value: T, pack: Callable[[str], str | bytes] = str) -> list[Any]:
        """Return the row of a value, without what is no field; ``pack`` is the connection's."""
        found = []
        for name, column in self._fields.items():
            item = getattr(value, name)
            write = pack if column.packed else column.write
            found.append(item if write is None else write(item))
        return found

    def value(self, row: Sequence[Any]) -> T:
        """Return the value of a row; ValueError, TypeError or OverflowError where it is none.

        SQLite's columns hold values of any type, and rows come from other hosts too.
        """
        if len(row) != len(self.names) or not all(map(isinstance, row, self._kinds)):
            check_types(row, dict(zip(self.names, self._kinds, strict=True)))
        found, place = list(row), 0
        try:
            for place, read in self._readers:
                found[place] = read(found[place])
        except ValueError as error:
            raise ValueError(f"column {self.names[place]!r}: {error}") from None
        return self._kind(*self._taken(found))


def check_types(row: Sequence[Any], columns: Mapping[str, tuple[type, ...]]) -> None:
    """TypeError for a value that its column should not hold, and for other columns."""
    if len(row) != len(columns):
        raise TypeError(f"expected {len(columns)} columns, got {len(row)}")
    for (name, kinds), value in zip(columns.items(), row, strict=True):
        if not isinstance(value, kinds):
            expected = " or ".join(_KINDS[kind] for kind in kinds)
            got = _KINDS.get(type(value), type(value).__name__)
            raise TypeError(f"column {name!r}: expected {expected}, got {got}")


def texts_of(columns: Sequence[str], row: Sequence[Any]) -> tuple[str, ...]:
    """Return the values of columns that hold text, without the id that follows them.

    TypeError where one does not.
    """
    *texts, _ = row
    check_types(texts, dict.fromkeys(columns, (str,)))
    return tuple(texts)


# -- The tables -----------------------------------------------------------------------------------

_ID = StoredColumn((int,))


def provenance_text(provenance: Mapping[str, str]) -> str | None:
    """Return a text that is equal for equal provenances; None for an empty one."""
    return json.dumps(dict(provenance), sort_keys=True) if provenance else None


_PROVENANCE = json_column(dict, read_json)


@lru_cache(maxsize=64)  # those of a file are mostly equal
def _provenance(text: str | None) -> Mapping[str, str]:
    assert _PROVENANCE.read is not None
    stored = {} if text is None else _PROVENANCE.read(text)
    return {name: str(value) for name, value in stored.items()}


_DISTURBANCE = json_column(Disturbance)


def _disturbance(text: str) -> Disturbance | None:
    assert _DISTURBANCE.read is not None
    found: Disturbance | None = _DISTURBANCE.read(text) if text else None
    return found


def _disturbance_text(value: Disturbance | None) -> str:
    assert _DISTURBANCE.write is not None
    return "" if value is None else str(_DISTURBANCE.write(value))


RECORDS = RowTable(
    Record,
    "workload_key workload_name target_key toolchain_key trace_json status samples message "
    "verified search seed created stderr program_key run_id proposal disturbance provenance id",
    trace_json=PACKED,
    seed=StoredColumn((str, _NULL), _whole, _text_of),
    disturbance=StoredColumn((str,), _disturbance, _disturbance_text),
    provenance=StoredColumn((str, _NULL), _provenance, provenance_text),
    id=_ID,
)
RUNS = RowTable(
    Run,
    "identity workload_key target_key toolchain_key search seed created known owner state "
    "state_asks outcome notes tags id",
    seed=WHOLE,
    state=PACKED,
    tags=json_column(list, read_json),
    id=_ID,
)
FINALS = RowTable(FinalsEntry, "held place status samples record_id")
ASKS = RowTable(Ask, "size seconds run_id", run_id=_ID)
_TRIALS = RowTable(TrialDetails, "worker phases record_id", phases=json_column(list))
_REJECTIONS = RowTable(
    Rejections, "module instruction block reason count message run_id", run_id=_ID
)
# Hosts send rows.
register(Record, "the row of a record", (list,), RECORDS.value, RECORDS.row)
register(Run, "the row of a run", (list,), RUNS.value, RUNS.row)
register(FinalsEntry, "the row of finals", (list,), FINALS.value, FINALS.row)

*_RECORD, _, _ = RECORDS.names
*_RUN, _ = RUNS.names
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
SELECT_ASKS = f"SELECT {', '.join(ASKS.names)} FROM ask"


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


# -- Details of runs: where the time went, and what was rejected ----------------------------------

# A row of a deleted run, and of a record that is not the run's, is not stored.
_INSERT_TRIAL = """
    INSERT OR REPLACE INTO trial (worker, phases, record_id)
    SELECT ?, ?, id FROM record WHERE id = ? AND run_id = ?
"""
_INSERT_PHASE = """
    INSERT OR REPLACE INTO phase (activity, began, ended, worker, run_id)
    SELECT ?, ?, ?, ?, id FROM run WHERE id = ?
"""
_INSERT_REJECTION = """
    INSERT OR REPLACE INTO rejection (module, instruction, block, reason, count, message, run_id)
    SELECT ?, ?, ?, ?, ?, ?, id FROM run WHERE id = ?
"""
_SELECT_TRIALS = """
    SELECT worker, phases, record_id FROM trial
    JOIN record ON record.id = record_id WHERE run_id = ? ORDER BY record_id
"""
_SELECT_PHASES = "SELECT activity, began, ended, worker, run_id FROM phase WHERE run_id = ?"
_SELECT_REJECTIONS = f"SELECT {', '.join(_REJECTIONS.names)} FROM rejection WHERE run_id = ?"
_PHASE = {"activity": (str,), "began": (float,), "ended": (float,), "worker": (int, _NULL)}


def add_details(connection: SQLiteConnection, run_id: int, details: RunDetails) -> None:
    """Store details of a run; call it inside ``writing``."""
    if not connection.rows("SELECT 1 FROM run WHERE id = ?", [run_id]):
        return
    for trial in details.trials:
        connection.execute(_INSERT_TRIAL, [*_TRIALS.row(trial), run_id])
    for phase in details.phases:
        connection.execute(_INSERT_PHASE, [*phase, run_id])
    for one in details.rejections:
        connection.execute(_INSERT_REJECTION, [*_REJECTIONS.row(one), run_id])


def read_details(connection: SQLiteConnection, run_id: int) -> RunDetails:
    """Return the details of a run."""
    found = RunDetails(
        tuple(connection.read(_TRIALS.value, "record", _SELECT_TRIALS, [run_id])),
        tuple(connection.read(_phase_of, "run", _SELECT_PHASES, [run_id])),
        tuple(connection.read(_REJECTIONS.value, "run", _SELECT_REJECTIONS, [run_id])),
    )
    return RunDetails().updated(found)


def remove_details(connection: SQLiteConnection, run_id: int) -> None:
    """Forget the details of a run that still has its records; call it inside ``writing``."""
    own = "SELECT id FROM record WHERE run_id = ?"
    connection.execute(f"DELETE FROM trial WHERE record_id IN ({own})", [run_id])
    connection.execute("DELETE FROM phase WHERE run_id = ?", [run_id])
    connection.execute("DELETE FROM rejection WHERE run_id = ?", [run_id])


def _phase_of(row: Sequence[Any]) -> Phase:
    *stored, _ = row
    check_types(stored, _PHASE)
    (phase,) = check_phases([stored])
    return phase


# -- Claims of programs: which run measures what at the moment ------------------------------------

_SELECT_OTHERS = f"""
    SELECT program_key, other.owner FROM claim
    JOIN run AS other ON other.id = claim.run_id
    JOIN run AS own ON own.workload_key = other.workload_key
        AND own.target_key = other.target_key AND own.toolchain_key = other.toolchain_key
    WHERE own.id = ? AND other.id != own.id AND program_key {AMONG}
"""
_INSERT = """
    INSERT INTO claim (program_key, run_id)
    SELECT given.value, run.id FROM run JOIN json_each(?) AS given WHERE run.id = ?
"""


def claim_programs(
    connection: SQLiteConnection, run_id: int, program_keys: Iterable[str]
) -> frozenset[str]:
    """Have a run claim these programs only; return those that a run of a living owner has claimed.

    Call it inside ``writing``.
    """
    wanted = set(program_keys)
    claimed = connection.rows(_SELECT_OTHERS, [run_id, json.dumps([*wanted])])
    alive = {owner: is_alive(owner) for owner in {owner for _, owner in claimed}}
    taken = frozenset(program_key for program_key, owner in claimed if alive[owner])
    end_claims(connection, run_id)
    connection.execute(_INSERT, [json.dumps([*(wanted - taken)]), run_id])
    return taken


def end_claims(connection: SQLiteConnection, run_id: int) -> None:
    """End all claims of a run; call it inside ``writing``."""
    connection.execute("DELETE FROM claim WHERE run_id = ?", [run_id])
