"""What a wrong call says, and its exit code."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.cli import words as words_of
from schedlang.cli.objects import UsageError, parameters_in, sizes_of, target_of, value_of
from schedlang.search import SEARCHES
from schedlang.search.explore_exploit import SETTINGS
from schedlang.search.tasks import OBJECTIVES, SCHEDULERS
from schedlang.targets import kinds
from schedlang.workloads import operators
from tests.cli.calling import SIZES, call, document
from tests.cli.conftest import Tuned


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("tune", "matmull", "--n", "4"), "did you mean 'matmul'", 2),
        (("tune", "matmul", "--q", "4"), "takes --n (128), --m (128), --k (128)", 2),
        (("tune", "matmul", "--dtipe", "float16"), "did you mean --dtype?", 2),
        (("tune", "matmul", "--n", "-4"), "at least 1", 2),
        (("tune", "matmul", "--n"), "--n needs a value", 2),
        (("tune", "matmul", "--n="), "--n needs a value", 2),
        (("tune", "matmul", "--n", "9" * 20), "at most 9223372036854775807", 2),
        (("tune", "matmul", "--", "--trials", "4"), "put it before --", 2),
        (("tune", "softmax", "--jso", "4"), "did you mean --json?", 2),
        (("tune", "softmax", "--j", "4"), "no option --j. softmax takes", 2),
        (("tune", "--n", "4", "matmul"), "the program comes first", 2),
        (("tune", *SIZES, "--trails", "4"), "did you mean --trials?", 2),
        (("tune", *SIZES, "--trials", "0"), "--trials 0; give a whole number, 1 or more", 2),
        (("tune", *SIZES, "--search", "evolutionery"), "evolutionary", 2),
        (("tune", *SIZES, "--target", "gpux"), "gpux", 2),
        (("tune", *SIZES, "--target", "cpu,core=1"), "no argument 'core'; it has cores", 2),
        (("tune", *SIZES, "--stop-latency", "0"), "stop rule", 2),
        (("tune", *SIZES, "--database", "no/tune.db"), "there is no folder no", 2),
        (("tune", *SIZES, "--report", "."), "is a folder", 2),
        (("tune", "nowhere.py:f"), "no such file", 2),
        (("tune", *SIZES, "--inputs", "nowhere.npz"), "nowhere.npz", 2),
        (("tune", *SIZES, "--module", "tile"), "give file.py:name", 2),
        (("best", *SIZES, "--database", "nowhere.db"), "no such database", 2),
        (("best", *SIZES, "--database", "."), "is a folder", 2),
        (("report", "nowhere.db"), "no such database", 2),
        (("report", "nowhere.db", "--compare"), "needs two runs", 2),
        (("show", "nowhere.db", "1"), "no such database", 2),
        (("run", "nowhere.db"), "no such database", 2),
        (("explain", "nowhere.db#one"), "#2", 2),
        (("compare", "nowhere.db"), "give two", 2),
        (("export", "--database", "nowhere.db"), "--library FILE or --metaschedule", 2),
        (("export", *SIZES, "--library", "mm.so"), "give --database FILE", 2),
        (("survey", *SIZES), "'--output'", 2),
        (("survey", *SIZES, "--size", "0", "-o", "mm.space"), "--size 0; give a whole number", 2),
        (("survey", *SIZES, "--seconds", "0", "-o", "mm.space"), "--seconds 0.0; give a pos", 2),
        (("survey", *SIZES, "-o", "no/mm.space"), "there is no folder no", 2),
        (("survey", "matmull", "-o", "mm.space"), "did you mean 'matmul'", 2),
        (("prune", "no.db", "--older-than-days", "-5"), "give a number of days", 2),
        (("prune", "no.db", "--older-than-days", "nan"), "give a number of days", 2),
        (("prune", "no.db", "--keep-best", "-1"), "'--keep-best'", 2),
        (("import", ".", "--database", "new.db"), "no folder of MetaSchedule", 2),
        (("tun", "matmul"), "tune", 2),
        (("tune", *SIZES, "--seed", "one"), "'--seed'", 2),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    words: Sequence[str], said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = call(*words, code=code)
    assert said in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr and not found.stdout
    assert list(tmp_path.iterdir()) == []


def test_wrong_files(programs: str, tmp_path: Path) -> None:
    for name, said in {
        "twise": "did you mean 'twice'?",
        "add": "needs --n; it takes --n, --dtype (float32)",
        "number": "not an int",
        "twice": "needs --a",
    }.items():
        assert said in call("tune", f"{programs}:{name}", code=2).stderr
    assert "1 programs" not in call("tune", programs, "--n", "4", code=2).stderr
    # A mistake of the user's own: its type, and where to find more.
    broken = call("tune", f"{programs}:broken", code=1)
    assert "KeyError" in broken.stderr and "--debug" in broken.stderr
    assert "Traceback" in call("tune", f"{programs}:broken", "--debug", code=1).stderr
    assert "sys.exit(3)" in call("tune", f"{programs}:ends", code=1).stderr
    leaves = tmp_path / "leaves.py"
    leaves.write_text("raise SystemExit(4)\n", encoding="utf-8")
    assert "line 1: SystemExit: 4" in call("tune", f"{leaves}:f", code=2).stderr
    several = tmp_path / "several.py"
    several.write_text("def f(n): ...\ndef g(n): ...\n", encoding="utf-8")
    assert "one of f, g, as" in call("tune", several, code=2).stderr
    folder = tmp_path / "folder.py"
    folder.mkdir()
    assert "did you mean" not in call("tune", f"{folder}:f", code=2).stderr
    one = tmp_path / "one.npz"
    with one.open("wb") as file:
        np.save(file, np.ones(3))
    assert "one array without a name" in call("tune", *SIZES, "--inputs", one, code=2).stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text("a = 1\nb = a + None\n", encoding="utf-8")
    assert "line 2: TypeError" in call("tune", f"{wrong}:b", code=2).stderr
    arrays = tmp_path / "arrays.npz"
    arrays.write_bytes(b"no arrays")
    assert "arrays.npz" in call("tune", *SIZES, "--inputs", arrays, code=2).stderr


def test_databases_that_cannot_be_read(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database", encoding="utf-8")
    assert "not an SQLite file" in call("summary", text, code=1).stderr
    assert "not an SQLite file" in document("summary", text, code=1)["error"]
    newer = tmp_path / "newer.db"
    sl.open_database(newer).close()
    assert "is empty" in call("summary", newer, code=1).stdout
    assert "0 workloads" in call("show", newer, code=2).stderr
    assert "holds no run" in call("explain", newer, code=1).stderr
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version=99")
    for words in (("summary", newer), ("report", newer), ("tune", *SIZES, "--database", newer)):
        assert "newer schedlang" in call(*words, code=1).stderr


@pytest.mark.slow
def test_nothing_found_has_its_own_exit_code(tuned: Tuned) -> None:
    words = ("matmul", "--n", "4", "--m", "4", "--k", "4")
    assert "no verified record" in call("best", *words, "--database", tuned.file, code=1).stderr
    assert "no record 99" in call("show", tuned.file, "99", code=1).stderr
    with sl.open_database(tuned.file.with_name("names.db")) as database:
        keys = ["a" * 16, "b" * 16]
        for key in keys:
            database.put_workload(key, "matmul", "{}")
    several = call("show", tuned.file.with_name("names.db"), code=2).stderr
    assert all(f"matmul ({key})" in several for key in keys)
    close = tuned.file.with_name("tun.db")
    assert "did you mean" in call("summary", close, code=2).stderr


def test_sizes() -> None:
    assert sizes_of(["--n", "4", "--out-dtype=float32"]) == {"n": "4", "out_dtype": "float32"}
    for wrong in (["4"], ["--n"], ["--n", "--m"], ["--n", "1", "--n", "2"]):
        with pytest.raises(UsageError):
            sizes_of(wrong)
    given = ("4", "-4", "0.5", "true", "none", "4,8", "float32")
    assert [value_of(text) for text in given] == [4, -4, 0.5, True, None, (4, 8), "float32"]
    assert value_of("4", "str") == "4"


def test_targets() -> None:
    assert target_of("cpu,cores=1").cores == 1
    assert target_of("cuda,arch=sm_90").arch == "sm_90"


def test_words_that_the_shell_completes_are_those_of_the_library() -> None:
    assert set(words_of.OPERATORS) == set(operators._long_names)
    for name, operator in words_of.OPERATORS.items():
        assert operator.short == operators.short_name(name)
        declared = inspect.signature(operators.factory(name)).parameters
        known = parameters_in(operator.sizes)
        assert list(known) == list(declared), name
        assert [one.default for one in known.values()] == [
            one.default for one in declared.values()
        ], name
    assert set(words_of.SEARCHES) == {"auto", *SEARCHES, *SETTINGS}
    assert set(words_of.SCHEDULERS) == set(SCHEDULERS)
    assert words_of.OBJECTIVES == OBJECTIVES
    assert words_of.TARGETS == kinds.all_names()


def test_programs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    (tmp_path / "mine.txt").touch()
    (tmp_path / "models").mkdir()
    assert list(words_of.complete_program("m")) == ["matmul", "mine.py", "models/"]
    assert list(words_of.completing(words_of.SEARCHES)("ran")) == ["random"]


def test_a_file_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def scale(n):\n    return n\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = call("tune", "mine.py:skale", "--n", "4", code=2).stderr
    assert said == "schedlang: mine.py has no 'skale'; did you mean 'scale'?\n"
