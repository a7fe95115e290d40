"""The command line: what each verb prints, its exit code, and what a wrong call says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import schedlang as sl
from schedlang.cli.app import app
from schedlang.cli.programs import sizes_of
from schedlang.cli.verb import UsageError

SIZES = ("matmul", "--n", "16", "--m", "16", "--k", "16")


def call(*words: str | Path, code: int = 0) -> Any:
    """Run the command line; check its exit code."""
    found = CliRunner().invoke(app, [str(word) for word in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == code, found.output
    return found


def document(*words: str | Path, code: int = 0) -> Any:
    """Run the command line; return what it prints as JSON."""
    return json.loads(call(*words, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A database with a run, and what tuning printed as JSON."""
    file = tmp_path_factory.mktemp("cli") / "tune.db"
    words = ("--trials", "3", "--database", file, "--notes", "mine", "--tag", "first")
    return file, document("tune", *SIZES, *words, "--no-progress")


def test_tune_measures_and_stores(tuned: tuple[Path, Any]) -> None:
    file, said = tuned
    assert (said["workload"], said["trials"], said["finished"]) == ("matmul", 3, "3 trials")
    stored = sl.best(sl.workloads.matmul(16, 16, 16), "cpu", file)
    assert stored is not None and stored.record.id == said["best"]["record"]
    assert said["speedup"] == pytest.approx(said["unscheduled_latency"] / said["best"]["latency"])


def test_the_same_call_measures_nothing(tuned: tuple[Path, Any], tmp_path: Path) -> None:
    file, said = tuned
    report = tmp_path / "run.html"
    words = ("--trials", "3", "--database", file, "--report", report)
    again = document("tune", *SIZES, *words)
    assert (again["earlier"], again["best"]) == (3, said["best"])
    assert report.stat().st_size > 10_000


def test_best_and_show_print_the_program(tuned: tuple[Path, Any]) -> None:
    file, said = tuned
    found = document("best", *SIZES, "--database", file)
    assert (found["kind"], found["record"]) == ("same", said["best"]["record"])
    number = str(found["record"])
    shown = document("show", file, number)["program"]
    assert shown.split("sch = ")[1:] == found["program"].split("sch = ")[1:] != []
    assert "T.prim_func" in call("show", file, number, "--as", "tvmscript").stdout
    assert ".globl" in call("show", file, number, "--as", "assembly").stdout


def test_summary_lists_workloads_and_runs(tuned: tuple[Path, Any]) -> None:
    text = call("summary", tuned[0]).stdout
    assert "matmul" in text and "mine [first]" in text
    [run] = document("summary", tuned[0])["runs"]
    assert (run["id"], run["notes"], run["tags"]) == (1, "mine", ["first"])


def test_report_and_comparison(tuned: tuple[Path, Any], tmp_path: Path) -> None:
    file = tuned[0]
    assert call("report", file, "--output", tmp_path / "run.html").stdout.startswith("wrote")
    document("tune", *SIZES, "--trials", "2", "--seed", "1", "--database", file)
    runs = (f"{file}#1", f"{file}#2")
    call("report", *runs, "--compare", "--output", tmp_path / "two.html")
    assert (tmp_path / "two.html").stat().st_size > 10_000
    compared = document("compare", *runs)
    assert compared["same_workload"] and len(compared["best"]) == 2
    assert "give --compare" in call("report", *runs, code=2).stderr


def test_merge_prune_export_and_import(tuned: tuple[Path, Any], tmp_path: Path) -> None:
    copy, folder = tmp_path / "copy.db", tmp_path / "ms"
    call("merge", tuned[0], "--into", copy)
    with sl.open_database(tuned[0]) as one, sl.open_database(copy) as other:
        assert other.count() == one.count() > 3
    call("prune", copy, "--keep-best", "1", "--dry-run")
    call("prune", copy, "--keep-best", "1")
    with sl.open_database(copy) as pruned:
        assert pruned.count() <= 2  # the fastest, and the one that a look-up prefers
    call("export", "--database", tuned[0], "--metaschedule", folder)
    call("import", folder, "--database", tmp_path / "imported.db")
    with sl.open_database(tmp_path / "imported.db") as imported:
        assert imported.count() > 0
    library = tmp_path / "kernel.so"
    call("export", *SIZES, "--database", tuned[0], "--library", library)
    assert library.stat().st_size > 0


PROGRAM = """
from tvm import te
import schedlang as sl


def add(n):
    a = te.placeholder((n,), "float32", "a")
    return [a, te.compute((n,), lambda i: a[i] + 1.0, "b")]


def twice(a):
    return 2 * a


@sl.module
def nothing(sch, block):
    raise sl.NotApplicable("it is a test")
"""


def test_a_program_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM, encoding="utf-8")
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, a=np.ones(8, np.float32))
    words = ("--n", "8", "--trials", "1", "--inputs", arrays, "--module", f"{file}:nothing")
    assert document("tune", f"{file}:add", *words)["workload"] == "add"
    # 2 * 1 equals 1 + 1.
    words = ("--n", "8", "--trials", "1", "--inputs", arrays, "--reference", f"{file}:twice")
    assert document("tune", f"{file}:add", *words)["best"]["verified"]
    assert "did you mean 'twice'" in call("tune", f"{file}:twise", code=2).stderr
    assert "missing" in call("tune", f"{file}:add", code=2).stderr
    assert "0 programs" in call("tune", file, code=2).stderr


def test_a_script(tmp_path: Path) -> None:
    file = tmp_path / "kernel.tvmscript"
    file.write_text(sl.workloads.matmul(4, 4, 4).mod.script(), encoding="utf-8")
    assert document("tune", file, "--trials", "1")["workload"] == "kernel"
    assert "takes no --n" in call("tune", file, "--n", "4", code=2).stderr


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("tune", "matmull", "--n", "4"), "did you mean 'matmul'", 2),
        (("tune", "matmul", "--q", "4"), "it takes n, m, k", 2),
        (("tune", *SIZES, "--trails", "4"), "did you mean --trials", 2),
        (("tune", *SIZES, "--trials", "0"), "trials", 1),
        (("tune", *SIZES, "--search", "evolutionery"), "evolutionary", 1),
        (("tune", *SIZES, "--target", "gpux"), "gpux", 1),
        (("tune", "nowhere.py:f"), "no such file", 2),
        (("tune", *SIZES, "--inputs", "nowhere.npz"), "nowhere.npz", 2),
        (("best", *SIZES, "--database", "nowhere.db"), "no such database", 2),
        (("report", "nowhere.db"), "no such database", 2),
        (("show", "nowhere.db", "1"), "no such database", 2),
        (("export", "--database", "nowhere.db"), "--library FILE or --metaschedule", 2),
        (("tun",), "tune", 2),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    words: Sequence[str], said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in call(*words, code=code).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "text.db"
    file.write_text("no database", encoding="utf-8")
    assert "text.db" in call("summary", file, code=1).stderr
    assert "Traceback" not in call("summary", file, code=1).stderr


def test_nothing_found_has_its_own_exit_code(tuned: tuple[Path, Any]) -> None:
    words = ("matmul", "--n", "4", "--m", "4", "--k", "4", "--database", tuned[0])
    assert "no verified record" in call("best", *words, code=1).stderr


def test_sizes() -> None:
    assert sizes_of(["--n", "4", "--out-dtype=float32"]) == {"n": 4, "out_dtype": "float32"}
    for words in (["4"], ["--n"], ["--n", "--m"], ["--n", "1", "--n", "2"]):
        with pytest.raises(UsageError):
            sizes_of(words)


def test_python_m() -> None:
    words = [sys.executable, "-m", "schedlang", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert said.stdout == f"schedlang {sl.__version__}\n"
