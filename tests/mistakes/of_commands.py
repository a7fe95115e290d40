"""Mistakes on the command line: each has an exit code and one message, and leaves no file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import schedlang as sl
from tests.cli.calling import SIZES, call
from tests.mistakes.mistake import Mistake, tune


class Answered(Exception):
    """What the command line says to a mistake."""


def wrong(*words: str, code: int = 2) -> Callable[[], None]:
    """A call with the exit code ``code``, beside a tuned, an empty and two wrong databases."""

    def make() -> None:
        tune(database="tune.db")
        sl.open_database("empty.db").close()
        Path("text.db").write_text("no database", encoding="utf-8")
        Path("net.onnx").write_text("no model", encoding="utf-8")
        before = _files()
        said = call(*words, code=code)
        assert not said.stdout and "Traceback" not in said.stderr
        assert _files() == before
        raise Answered(" ".join(said.stderr.replace("│", " ").split()))

    return make


def _files() -> set[str]:
    beside = ("-wal", "-shm")  # SQLite's own
    return {str(one) for one in Path().rglob("*") if not one.name.endswith(beside)}


def command(said: str, *words: str, code: int = 2) -> Mistake:
    """A wrong call of the command line, and what it says."""
    return Mistake(" ".join(words), wrong(*words, code=code), Answered, said)


OTHER = ("matmul", "--n", "8", "--m", "8", "--k", "8")
FROM = ("export", *SIZES, "--database", "tune.db")
C = (*FROM, "--c", "--library")
NOT_ONE = "not an SQLite file"
NO_FILE = "there is no such database"

COMMANDS = [
    # A path that is wrong, a folder that is not there.
    command(NO_FILE, "summary", "no.db"),
    command(NO_FILE, "explain", "no.db"),
    command(NO_FILE, "report", "no/tune.db", "--output", "a.html"),
    command("did you mean tune.db?", "show", "tun.db"),
    command("did you mean net.onnx?", "tune-network", "nett.onnx"),
    command("no such file", "bench", "no.toml"),
    command("no such file or folder", "import", "no", "--database", "new.db"),
    command("is a folder", "run", ".", "1"),
    command("there is no folder no", "report", "tune.db", "--output", "no/a.html"),
    command("there is no folder no", "merge", "tune.db", "--into", "no/new.db"),
    command("there is no folder no", *FROM, "--library", "no/a.so"),
    command("there is no folder no", *C, "no/a.so", code=1),
    # A file that is no database, and an empty one.
    command(NOT_ONE, "report", "text.db", "--output", "a.html", code=1),
    command(NOT_ONE, "best", *SIZES, "--database", "text.db", code=1),
    command(NOT_ONE, "tune", *SIZES, "--database", "text.db", code=1),
    command(NOT_ONE, "merge", "text.db", "--into", "new.db", code=1),
    command(NOT_ONE, "merge", "tune.db", "--into", "text.db", code=1),
    command("no ONNX file", "tune-network", "net.onnx", code=1),
    command("holds no run", "report", "empty.db", "--output", "a.html", code=1),
    command("holds no run", "explain", "empty.db", code=1),
    command("nothing was measured into it", "run", "empty.db"),
    command("no verified record", "best", *SIZES, "--database", "empty.db", code=1),
    # A kernel, a record or a run that is not there.
    command("did you mean 'matmul'?", "best", "matmull", "--database", "tune.db"),
    command("no verified record of matmul", "best", *OTHER, "--database", "tune.db", code=1),
    command("no record 99", "show", "tune.db@99", code=1),
    command("holds no run 99", "report", "tune.db#99", "--output", "a.html", code=1),
    command("a run is named as tune.db#1", "report", "tune.db@1", "--output", "a.html"),
    command("no extent 'q'", "tune-shapes", "matmul", "--shapes", "q=4"),
    # An option that there is not, a number that is none.
    command("No such option: --outptu", "report", "tune.db", "--outptu", "a.html"),
    command("--json", "summary", "tune.db", "--jsn"),
    command("did you mean --library?", *FROM, "--libary", "a.so"),
    command("did you mean --trials?", "tune-network", "net.onnx", "--trails", "3"),
    command("No such command 'reprot'", "reprot", "tune.db"),
    command("'--trials'", "tune", *SIZES, "--trials", "many"),
    command("'--keep-best'", "prune", "tune.db", "--keep-best", "many"),
    command("--seconds nan", "tune", *SIZES, "--seconds", "nan"),
    command("low:high", "tune-shapes", "matmul", "--shapes", "n=1:x"),
    # A file that cannot be written.
    command("/proc/a.html", "report", "tune.db", "--output", "/proc/a.html", code=1),
    command("/proc/a.so", *FROM, "--library", "/proc/a.so", code=1),
    command("/proc/a.so", *C, "/proc/a.so", code=1),
    command("/proc/new.db", "merge", "tune.db", "--into", "/proc/new.db", code=1),
    command("File exists", *FROM, "--metaschedule", "net.onnx", code=1),
    command("name must end with", *FROM, "--library", "a.txt", code=1),
    command("'a-b' cannot be the name", *C, "a-b.so", code=1),
    command("--c goes with --library", *FROM, "--c", "--metaschedule", "folder"),
]
