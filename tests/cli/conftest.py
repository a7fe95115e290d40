"""A database with two runs of a small matmul, made by the command line; and fake measurers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import schedlang as sl
from tests.cli.calling import SIZES, document


class Tuned(NamedTuple):
    """The file, what both calls of ``tune`` printed as JSON, and a candidate that works."""

    file: Path
    first: Any
    second: Any
    candidate: str


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    file = tmp_path_factory.mktemp("cli") / "tune.db"
    words = (*SIZES, "--database", file, "--no-progress")
    first = document("tune", *words, "--trials", "3", "--notes", "mine", "--tag", "first")
    second = document("tune", *words, "--trials", "2", "--seed", "1")
    with sl.open_database(file, read_only=True) as database:
        ok = [one.id for one in database.query() if one.ok and not one.unscheduled]
    return Tuned(file, first, second, str(ok[0]))


PROGRAMS = '''
"""A file of a user."""

from tests.tuning.scripted import Scripted
from tvm import te
import schedlang as sl


def add(n, dtype: str = "float32"):
    a = te.placeholder((n,), dtype, "a")
    return [a, te.compute((n,), lambda i: a[i] + a[i], "b")]


program = sl.workloads.matmul(8, 8, 8).mod


def twice(a):
    return 2 * a


def number():
    return 7


def broken():
    raise KeyError("it is mine")


@sl.module
def nothing(sch, block):
    raise sl.NotApplicable("it is a test")


def measurer():
    return Scripted([3e-6, 2e-6, 4e-6], 5e-6)


def interrupted():
    return Scripted([3e-6, 2e-6, 4e-6], 5e-6, interrupted_at=2)


class Breaking(Scripted):
    def measure(self, candidates):
        yield from super().measure(candidates)
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > 2:
            raise RuntimeError("the cable")


def breaking():
    return Breaking([3e-6, 2e-6, 4e-6] * 9, 5e-6)


def failing():
    return Scripted([None], 5e-6, complete=False)


def ends():
    raise SystemExit(3)


def swallowed():
    """As numpy does when it is imported."""
    import os, signal

    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise RecursionError("an import that was cut off") from None


def enough(trial):
    return trial.trials >= 2


seen = []


def see(trial):
    seen.append(trial.best)
'''


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a file with programs, a module, and measurers that measure nothing."""
    file = tmp_path_factory.mktemp("programs") / "programs_of_mine.py"
    file.write_text(PROGRAMS, encoding="utf-8")
    return str(file)
