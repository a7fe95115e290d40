"""Tables about runs: where the time went, what was rejected, and who measures what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from schedlang.database.connection import AMONG, SQLiteConnection
from schedlang.database.file import is_alive
from schedlang.database.rows import Columns, check_types, read_as
from schedlang.database.run import Rejections, RunDetails, TrialDetails
from schedlang.measurement.clock import Phase, check_phases

# -- Details of runs ------------------------------------------------------------------------------

_TRIAL: Columns = {"worker": (int,), "phases": (str,), "record_id": (int,)}
_PHASE: Columns = {
    "activity": (str,),
    "began": (float,),
    "ended": (float,),
    "worker": (int, type(None)),
    "run_id": (int,),
}
_REJECTION: Columns = {
    "module": (str,),
    "instruction": (str,),
    "block": (str,),
    "reason": (str,),
    "count": (int,),
    "message": (str,),
    "run_id": (int,),
}

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


def add_details(connection: SQLiteConnection, run_id: int, details: RunDetails) -> None:
    """Store details of a run; call it inside ``writing``."""
    if not connection.rows("SELECT 1 FROM run WHERE id = ?", [run_id]):
        return
    for trial in details.trials:
        row = (trial.worker, json.dumps(trial.phases), trial.record_id, run_id)
        connection.execute(_INSERT_TRIAL, row)
    for phase in details.phases:
        connection.execute(_INSERT_PHASE, (*phase, run_id))
    for one in details.rejections:
        connection.execute(_INSERT_REJECTION, (*one.place, one.count, one.message, run_id))


def read_details(connection: SQLiteConnection, run_id: int) -> RunDetails:
    """Return the details of a run."""
    phases = f"SELECT {', '.join(_PHASE)} FROM phase WHERE run_id = ?"
    rejections = f"SELECT {', '.join(_REJECTION)} FROM rejection WHERE run_id = ?"
    found = RunDetails(
        tuple(connection.read(_trial_of, "record", _SELECT_TRIALS, [run_id])),
        tuple(connection.read(_phase_of, "run", phases, [run_id])),
        tuple(connection.read(_rejections_of, "run", rejections, [run_id])),
    )
    return RunDetails().updated(found)


def remove_details(connection: SQLiteConnection, run_id: int) -> None:
    """Forget the details of a run that still has its records; call it inside ``writing``."""
    own = "SELECT id FROM record WHERE run_id = ?"
    connection.execute(f"DELETE FROM trial WHERE record_id IN ({own})", [run_id])
    connection.execute("DELETE FROM phase WHERE run_id = ?", [run_id])
    connection.execute("DELETE FROM rejection WHERE run_id = ?", [run_id])


def _trial_of(row: Sequence[Any]) -> TrialDetails:
    check_types(row, _TRIAL)
    worker, phases, record_id = row
    return TrialDetails(record_id, worker, tuple(read_as(json.loads, "phases", phases)))


def _phase_of(row: Sequence[Any]) -> Phase:
    check_types(row, _PHASE)
    activity, began, ended, worker, _ = row
    (phase,) = check_phases([(activity, began, ended, worker)])
    return phase


def _rejections_of(row: Sequence[Any]) -> Rejections:
    check_types(row, _REJECTION)
    *fields, _ = row
    return Rejections(*fields)


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
