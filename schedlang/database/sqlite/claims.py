"""Claims of programs: which run measures what at the moment."""

from __future__ import annotations

import json
from collections.abc import Iterable

from schedlang.database.owner import is_alive
from schedlang.database.sqlite.connection import AMONG, SQLiteConnection

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
