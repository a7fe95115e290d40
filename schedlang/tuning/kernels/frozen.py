"""A file of winners: what a job of many processes reads, so that all take the same programs."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from schedlang.database import Database, Record, best_first
from schedlang.database.opening import opened_for_reading
from schedlang.database.place import BESIDE, FROZEN_ID, beside, check_name
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import DatabaseError
from schedlang.files import as_path
from schedlang.targets import Target, as_target, toolchain_key
from schedlang.tuning.kernels.rungs import RECORDS

# Of file systems that have no hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


@dataclass(frozen=True)
class Frozen:
    """What ``freeze`` wrote.

    Attributes
    ----------
    path: the file.
    target_key: of the machine whose winners it has.
    records: number of winners, one for each program.
    left_out: names of programs without a winner.
    """

    path: Path
    target_key: str
    records: int
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.path}: the winners of {self.records} programs on {self.target_key}"
        missing = ", ".join(self.left_out)
        return f"{text}; without a winner: {missing}" if missing else text


def freeze(
    database: Database | str | os.PathLike[str],
    path: str | os.PathLike[str],
    target: Target | str = "cpu",
) -> Frozen:
    """Write the winner of each program on one kind of machine into a file of its own.

    The winner is what ``best`` returns now, of records of this toolchain. The file is final, and
    can only be read. A look-up there finds the winner, which has to make the very program that was
    measured, or raises ``DatabaseError`` with the program's name: it knows no second best, no
    similar program, no other machine and no other toolchain, so that processes that read it cannot
    differ (NVIDIA/Megatron-LM #6966). A program of which only the unscheduled form was measured has
    no winner: nobody has looked for a faster one.

    Parameters
    ----------
    database: a path or a ``Database``.
    path: the file to be.
    target: a ``Target`` or its name.

    DatabaseError where the file exists already, cannot be written, or would be empty.
    """
    place, machine = as_path(path), as_target(target)
    check_name(path)
    if os.path.lexists(place):
        raise DatabaseError(f"{place}: it exists, and a frozen file is final; choose another path")
    for left in (beside(place, suffix) for suffix in BESIDE):
        if left.exists():
            raise DatabaseError(
                f"{place}: {left.name} lies beside it, of a file that was there, and SQLite would "
                "add it to this one; remove it, or choose another path"
            )
    folder = None
    with ExitStack() as stack:
        source = opened_for_reading(database, stack)
        try:
            folder = Path(mkdtemp(prefix=".frozen-", dir=place.parent))
            made = folder / "frozen.db"
            left_out, count = [], 0
            with Database(made) as into, into.transaction():
                for key, name in source.workloads():
                    if _bring(source, into, key, name, machine.key):
                        count += 1
                    else:
                        left_out.append(name)
            if not count:
                raise DatabaseError(
                    f"there is nothing to freeze: no program was tuned on {machine.key} with "
                    f"{toolchain_key()}"
                )
            _seal(made)
            _publish(made, place)
        except (OSError, sqlite3.Error) as error:
            raise DatabaseError(f"{place}: it cannot be written: {error}") from error
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
    return Frozen(place, machine.key, count, tuple(left_out))


def _bring(source: Database, into: Database, key: str, name: str, target_key: str) -> bool:
    """Copy a program with its winner; return whether it has one."""
    keys = key, target_key, toolchain_key()
    text, workload = source.get_workload(key), Unreadable().workload(source, key)
    if text is None or workload is None or all(one.unscheduled for one in source.query(*keys)):
        return False
    for record in best_first(source, *keys, n=RECORDS):
        schedule = replayed(record, workload)
        if schedule is not None and schedule.program_key == record.program_key:
            into.put_workload(key, name, text, *source.structural_keys(key))
            _copy(source, into, record)
            return True
    return False


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
        ((mode,),) = connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        if mode != "delete":
            raise sqlite3.OperationalError(f"its journal stays in the mode {mode}")
        connection.execute(f"PRAGMA application_id={FROZEN_ID}")
        connection.commit()
    finally:
        connection.close()
    path.chmod(path.stat().st_mode & 0o444)


def _publish(made: Path, place: Path) -> None:
    """Give the file its name, unless another process was faster."""
    try:
        os.link(made, place)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))
        os.replace(made, place)
