"""Run in a separate process: read every case of a kind, and print how each ended.

Prints ``begin NAME`` before a case and ``loaded NAME`` or ``refused NAME: ERROR`` after it, so that
the reader knows the case if the process crashes. A case that takes too long ends the process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from schedlang.database import Database, history, merge, summary
from schedlang.errors import SchedlangError
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload
from tests.database.damage import SENTINEL, Case, cases, fill, place, sound_schedule
from tests.database.plausible import make_record
from tests.formats.reading import loads_soundly_or_is_refused

SECONDS = 60
# What no input may make Python do; the interpreter reports it (PEP 578).
_FORBIDDEN = {
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "pickle.find_class",
    "socket.connect",
    "sqlite3.enable_load_extension",
    "sqlite3.load_extension",
    "subprocess.Popen",
}


class Refused(Exception):
    """An input was refused as it should be."""


@contextlib.contextmanager
def _refusing(*kinds: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (SchedlangError, *kinds) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


@functools.cache
def trace_loads(text: str | bytes) -> bool:
    """Whether it loads; then it can be replayed, or is an invalid trace."""
    return loads_soundly_or_is_refused(text, sound_schedule().workload)


def read_database(path: Path) -> None:
    """Open it for reading, then for writing, and use all that there is."""
    refused: Exception | None = None
    for read_only in (True, False):
        try:
            with _refusing(), Database(path, read_only=read_only) as database:
                for record in database.query():
                    assert isinstance(record.trace_json, str)
                    trace_loads(record.trace_json)
                database.best("w", "t", n=9)
                for run in database.runs():
                    database.asks(run.id or 0)
                    database.details(run.id or 0)
                    history(database, run.id)
                database.find_run("i")
                for key, _ in database.workloads():
                    database.get_workload(key)
                    database.structural_keys(key)
                summary(database)
                merge(database, Database())
                if not read_only:
                    (new,) = database.append([make_record(provenance={"a": "b"})])
                    assert new.id is not None
                    merge(Database(), database)
                    database.delete([1, new.id])
                    database.delete_run(1)
                    database.compact()
        except Refused as error:
            refused = error
    if refused is not None:
        raise refused


def read_trace(text: str | bytes) -> None:
    """Load the case, and replay the loaded traces."""
    if not trace_loads(text):
        raise Refused("TraceFormatError")


def read_program(text: str | bytes) -> None:
    """Check the case, and let TVM read it if the check passes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    with _refusing():
        Workload(read_stored_program(text), "damaged").script()


def read(kind: str, case: Case, folder: Path) -> None:
    """Raises ``Refused``, or returns when the input loads."""
    if kind == "traces":
        read_trace(case.text)
    elif kind == "programs":
        read_program(case.text)
    else:
        path = folder / "damaged.db"
        for old in folder.glob("damaged.db*"):
            old.unlink()
        place(case, path)
        read_database(path)


def _forbid(event: str, arguments: tuple[object, ...]) -> None:
    if event in _FORBIDDEN:
        print(f"an input made Python do {event} {arguments}", file=sys.stderr, flush=True)
        os._exit(3)


def main(kind: str, folder: Path) -> None:
    os.chdir(folder)
    fill(folder / "first.db").close()
    todo = cases(kind, folder)
    sys.addaudithook(_forbid)
    for case in todo:
        print("begin", case.name, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            read(kind, case, folder)
        except Refused as error:
            print(f"refused {case.name}: {' '.join(str(error).split())[:200]}", flush=True)
        else:
            print("loaded", case.name, flush=True)
        assert not Path(SENTINEL).exists(), case.name
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
