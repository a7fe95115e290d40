"""Verbs that read a database: best, show, run, summary, explain, report, compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytest import MonkeyPatch

import schedlang as sl
from schedlang.bench import torch_operators
from schedlang.bench.torch_operators import NoPeer, parameters_of
from schedlang.cli.stored import Named, named
from schedlang.database.programs import put_program
from schedlang.measurement import describe_latency
from schedlang.terminal import table
from tests.cli.calling import SIZES, call, document
from tests.cli.conftest import Tuned
from tests.database.plausible import make_record


def test_best_and_show_print_the_program(tuned: Tuned) -> None:
    found = document("best", *SIZES, "--database", tuned.file)
    assert found["kind"] == "same" and "sch = " in found["program"]
    by_name = document("best", "matmul", "--database", tuned.file)
    assert by_name["record"] == found["record"]
    number = str(found["record"])
    assert document("show", tuned.file, number) == document("show", tuned.file)
    assert "T.prim_func" in call("show", tuned.file, number, "--as", "tvmscript").stdout
    assert ".globl" in call("show", tuned.file, "matmul", "--as", "assembly").stdout
    assert document("show", tuned.file, *SIZES)["record"] == found["record"]
    assert "get_block" in call("show", tuned.file, tuned.candidate, "--as", "trace").stdout
    assert "cuda" in call("show", tuned.file, number, "--as", "cuda", code=2).stderr


def test_a_record_is_named_in_every_verb_as_in_the_others(tuned: Tuned, tmp_path: Path) -> None:
    number, file = tuned.candidate, tuned.file
    assert document("show", f"{file}@{number}") == document("show", file, number)
    best = tuned.first["best"]["record"]
    assert document("show", f"{file}#1")["record"] == best
    assert document("run", f"{file}@{number}", "--rounds", "1")["record"] == int(number)
    library = tmp_path / "kernel.so"
    words = ("--database", f"{file}@{number}", "--library", library)
    assert document("export", *words)["record"] == int(number)
    assert sl.load(library) is not None
    assert document("export", "--database", f"{file}#2", "--library", library)["record"] > 0


def test_a_record_is_named_once(tuned: Tuned, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    file = str(tuned.file)
    wrong = {
        ("show", f"{file}@1", "matmul"): "leave out 'matmul'",
        ("run", f"{file}#1", *SIZES): "leave out 'matmul --n 16",
        ("show", file, "1", "--n", "4"): "record 1 takes no sizes",
        ("show", f"{file}@one"): "the number of a record follows @",
        ("summary", f"{file}@1"): f"names a record; give the database itself: {file}",
        ("best", "matmul", "--database", f"{file}#1"): "names a run; give the database",
        ("tune", *SIZES, "--database", f"{file}#1"): "names a run; give the database",
        ("merge", file, "--into", f"{file}#1"): "names a run; give the database",
        ("export", "--database", f"{file}@1", "--metaschedule", "ms"): "database as a whole",
    }
    monkeypatch.chdir(tmp_path)
    for words, said in wrong.items():
        assert said in " ".join(call(*words, code=2).stderr.split()), words
    assert "no record 99" in call("show", f"{file}@99", code=1).stderr
    assert "is ok: nothing failed" in call("explain", f"{file}@{tuned.candidate}", code=1).stderr
    assert "holds no run 99" in call("show", f"{file}#99", code=1).stderr
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_may_look_like_numbers(tmp_path: Path) -> None:
    """The last sign counts, and a file that is there is that file."""
    file = tmp_path / "a#b@2"
    sl.open_database(file).close()
    assert named(str(file)) == Named(str(file), file)
    assert named(f"{file}@7") == Named(f"{file}@7", file, record=7)
    assert named(f"{file}#3") == Named(f"{file}#3", file, run=3)


def test_summary_lists_workloads_and_runs(tuned: Tuned) -> None:
    text = call("summary", tuned.file).stdout
    assert "matmul" in text and "mine" in text
    best = document("summary", tuned.file)["workloads"][0]["best"]
    assert describe_latency(best) in text
    first, second = document("summary", tuned.file)["runs"]
    assert (first["id"], first["notes"], first["tags"]) == (1, "mine", ["first"])
    assert (second["id"], second["seed"], second["ended"]) == (2, 1, True)


def test_run_times_a_record_against_others(tuned: Tuned) -> None:
    words = ("--bench", "--no-compiled", "--rounds", "5")
    found = document("run", tuned.file, tuned.candidate, *words)
    sides = {side["name"]: side for side in found["sides"]}
    assert found["now"] == "ok" and found["now_verified"]
    assert {"schedlang", "unscheduled"} <= set(sides)
    assert sides["schedlang"]["ratio"] == 1 and sides["schedlang"]["p_value"] is None
    assert 0 <= sides["unscheduled"]["p_value"] <= 1
    if torch_operators.available():
        assert len(sides["torch eager"]["samples"]) == 5
    else:
        assert any("torch" in note for note in found["notes"])


def test_operators_are_known_by_their_shapes() -> None:
    made = sl.workloads.GMM(8, 4, 2, batch=3)
    stored = sl.Workload(made.mod, made.name)
    assert parameters_of(stored) == parameters_of(made)
    with pytest.raises(NoPeer, match="sizes of C2D"):
        parameters_of(sl.Workload(sl.workloads.C2D(8, 8, 2, 2, 3, 2, 1).mod, "C2D"))
    with pytest.raises(NoPeer, match="no operator"):
        parameters_of(sl.Workload(made.mod, "mine"))


def test_explain(tuned: Tuned) -> None:
    found = document("explain", f"{tuned.file}#1")
    assert found["run"]["id"] == 1 and found["summary"].startswith("matmul")
    assert found["summary"] in call("explain", f"{tuned.file}#1").stdout


def test_report_and_comparison(tuned: Tuned, tmp_path: Path) -> None:
    one, runs = tmp_path / "run.html", (f"{tuned.file}#1", f"{tuned.file}#2")
    assert call("report", tuned.file, "--run", "1", "--output", one).stdout.startswith("wrote")
    assert "mine" in one.read_text(encoding="utf-8")
    both = tmp_path / "two.html"
    assert document("report", *runs, "--compare", "--output", both)["runs"] == list(runs)
    assert both.stat().st_size > 10_000
    assert "--compare" in call("report", *runs, code=2).stderr
    assert "is a folder" in call("report", tuned.file, "--output", tmp_path, code=2).stderr
    assert "holds no run 9" in call("report", f"{tuned.file}#9", code=1).stderr


def test_compare_runs_and_records(tuned: Tuned) -> None:
    compared = document("compare", f"{tuned.file}#1", f"{tuned.file}#2")
    assert compared["same_workload"] and len(compared["best"]) == 2
    assert compared["differences"]
    numbers = [said["best"]["record"] for said in (tuned.first, tuned.second)]
    found = document(
        "compare", *(f"{tuned.file}@{number}" for number in (tuned.candidate, numbers[0]))
    )
    assert found["kind"] == "records" and len(found["records"]) == 2
    assert found["ratio"] is None or found["ratio"] > 0
    assert "no record 99" in call("compare", f"{tuned.file}@1", f"{tuned.file}@99", code=1).stderr


def test_compare_databases(tuned: Tuned, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    call("merge", tuned.file, "--into", copy)
    assert document("compare", tuned.file, copy)["equal"]
    call("prune", copy, "--keep-best", "1")
    found = document("compare", tuned.file, copy)
    assert not found["equal"] and found["only_in_first"] and not found["only_in_second"]
    said = call("compare", tuned.file, copy).stdout
    assert "only in the first" in said and said.isascii()


def test_tables_fit_the_terminal() -> None:
    head, rows = ("name", "first", "second"), [("a", "1" * 30, ""), ("b", "2", "")]
    wide = table(head, rows, width=40).splitlines()
    assert wide[1] == f"a     {'1' * 30}" and len(wide) == 3
    narrow = table(head, rows, width=30).splitlines()
    assert narrow == ["a", f"  first  {'1' * 30}", "b", "  first  2"]


def test_records_of_another_machine_are_told(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    workload = sl.workloads.softmax(8, 8)
    other = sl.Target("cpu", cores=4096).key
    with sl.open_database(file) as database:
        put_program(database, workload)
        database.append([replace(make_record(workload_key=workload.key), target_key=other)])
    said = call("best", "softmax", "--m", "8", "--n", "8", "--database", file, code=1).stderr
    assert f"--similar tries those of {other}; schedlang summary" in " ".join(said.split())


def test_an_operator_is_called_as_it_was_typed(programs: str, tmp_path: Path) -> None:
    """Its name in papers, under which the API stores it, is the same workload."""
    file = tmp_path / "names.db"
    workload = sl.workloads.softmax(8, 8)
    assert workload.name == "SFM"
    with sl.open_database(file) as database:
        put_program(database, workload)
        record = make_record(workload_key=workload.key, workload_name="SFM")
        number = database.append([replace(record, target_key=sl.Target("cpu").key)])[0].id
    for words in (["softmax"], ["SFM"], ["softmax", "--m", "8", "--n", "8"]):
        assert document("show", file, *words, "--as", "decisions")["record"] == number
    said = call("best", "softmax", "--database", file, code=1).stderr
    assert "no verified record of softmax on" in said or "some rows" in said


def test_what_is_not_there_is_told_with_what_there_is(tuned: Tuned, tmp_path: Path) -> None:
    with sl.open_database(tuned.file, read_only=True) as database:
        held = database.count()
    said = call("show", f"{tuned.file}@99", code=1).stderr
    assert f"no record 99: it has {held} records" in said
    several = tmp_path / "several.db"
    call("merge", tuned.file, "--into", several)
    with sl.open_database(several) as database:
        database.put_workload("a" * 16, "mine", "{}")
    said = " ".join(call("show", several, code=2).stderr.split())
    assert f"{several}#1 (matmul)" in said and "has 2 workloads" in said
    assert "takes no sizes" in call("show", several, "mine", "--n", "4", code=2).stderr
