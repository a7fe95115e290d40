"""Claims of programs: which run measures what at the moment."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.database.owner import is_alive
from schedlang.database.sqlite.connection import SQLiteConnection
from schedlang.database.sqlite.parts import parts

_SELECT_OTHERS = """
    SELECT program_key, other.owner FROM claim
    JOIN run AS other ON other.id = claim.run_id
    JOIN run AS own ON own.workload_key = other.workload_key
        AND own.target_key = other.target_key AND own.toolchain_key = other.toolchain_key
    WHERE own.id = ? AND other.id != own.id AND program_key IN
"""
_INSERT = """
    INSERT INTO claim (program_key, run_id)
    SELECT given.column1, run.id FROM run JOIN (VALUES {values}) AS given WHERE run.id = ?
"""


def claim_programs(
    connection: SQLiteConnection, run_id: int, program_keys: Iterable[str]
) -> frozenset[str]:
    """Have a run claim these programs only; return those that a run of a living owner has claimed.

    Call it inside ``writing``.
    """
    wanted = set(program_keys)
    claimed: list[tuple[str, str]] = []
    for some in parts(wanted):
        marks = ", ".join("?" * len(some))
        claimed += connection.rows(f"{_SELECT_OTHERS} ({marks})", [run_id, *some])
    alive = {owner: is_alive(owner) for owner in {owner for _, owner in claimed}}
    taken = frozenset(program_key for program_key, owner in claimed if alive[owner])
    end_claims(connection, run_id)
    for some in parts(wanted - taken):
        values = ", ".join(["(?)"] * len(some))
        connection.execute(_INSERT.format(values=values), [*some, run_id])
    return taken


def end_claims(connection: SQLiteConnection, run_id: int) -> None:
    """End all claims of a run; call it inside ``writing``."""
    connection.execute("DELETE FROM claim WHERE run_id = ?", [run_id])
