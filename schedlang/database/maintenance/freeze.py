"""A file of winners: what a job of many processes reads, so that all take the same programs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from schedlang.database.database import Database
from schedlang.database.ranking import best_first
from schedlang.database.record import Record
from schedlang.database.sqlite.schema import FROZEN_ID
from schedlang.errors import DatabaseError


@dataclass(frozen=True)
class Frozen:
    """What ``freeze`` wrote.

    Attributes
    ----------
    path: the file.
    programs: number of programs with a winner; records: number of winners, one for each machine.
    left_out: names of programs without a verified record.
    """

    path: Path
    programs: int
    records: int
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.path}: the winners of {self.programs} programs, {self.records} records"
        missing = ", ".join(self.left_out)
        return f"{text}; without a verified record: {missing}" if missing else text


def freeze(source: Database, path: str | os.PathLike[str]) -> Frozen:
    """Write the winner of each program on each machine into a file of its own, which is final.

    The winner is what ``schedlang.best`` returns now: of the newest finals, else the fastest
    verified record, of the toolchain that measured last. The file can only be read. A look-up there
    finds the winner or raises ``DatabaseError`` with the program's name: it knows no second best,
    no similar program, and no other toolchain, so that processes that read it cannot differ
    (NVIDIA/Megatron-LM #6966).

    DatabaseError where the file exists already, cannot be written, or would be empty.
    """
    place = Path(path)
    if place.exists():
        raise DatabaseError(f"{place}: it exists, and a frozen file is final; choose another path")
    folder = Path(mkdtemp(prefix=".frozen-", dir=place.parent))
    made = folder / place.name
    try:
        left_out, programs, records = [], 0, 0
        with Database(made) as into, into.transaction():
            for key, name in source.workloads():
                winners = list(_winners(source, key))
                text = source.get_workload(key)
                if not winners or text is None:
                    left_out.append(name)
                    continue
                into.put_workload(key, name, text, *source.structural_keys(key))
                programs, records = programs + 1, records + len(winners)
                for winner in winners:
                    _copy(source, into, winner)
        if not records:
            raise DatabaseError("there is nothing to freeze: no program has a verified record")
        _seal(made)
        os.link(made, place)  # unless another process was faster
    except (OSError, sqlite3.Error) as error:
        raise DatabaseError(f"{place}: it cannot be written: {error}") from error
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    return Frozen(place, programs, records, tuple(left_out))


def _winners(source: Database, key: str) -> Iterator[Record]:
    """Yield the winner on each machine that has one, of the toolchain that measured last."""
    latest: dict[str, Record] = {}
    for record in source.query(key):
        if record.ok and record.verified:
            latest[record.target_key] = record
    for target_key, record in latest.items():
        for winner in best_first(source, key, target_key, record.toolchain_key, n=1):
            yield winner
            break


def _copy(source: Database, into: Database, winner: Record) -> None:
    [kept] = into.append([replace(winner, id=None, run_id=None, proposal=None)])
    assert kept.id is not None
    keys = winner.workload_key, winner.target_key, winner.toolchain_key
    into.add_finals(
        replace(entry, record_id=kept.id)
        for entry in source.finals(*keys)
        if entry.record_id == winner.id
    )


def _seal(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute(f"PRAGMA application_id={FROZEN_ID}")
        connection.commit()
    finally:
        connection.close()
    path.chmod(0o444)
