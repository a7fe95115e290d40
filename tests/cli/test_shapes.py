"""``schedlang tune-shapes``: the template, the shapes, and what it answers and writes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.cli.objects import UsageError
from schedlang.cli.programs import shapes_of, template_of
from tests.cli.calling import call, document

FILE = """
from tests.tuning.scripted import Scripted
from tvm import te


def scale(rows, width, factor: float = 2.0):
    if rows == 7:
        raise ValueError("seven is wrong")
    a = te.placeholder((rows, width), "float32", "a")
    return [a, te.compute((rows, width), lambda i, j: a[i, j] * factor, "b")]


number = 7


class Measurer(Scripted):
    def __init__(self):
        super().__init__([3e-6, 2e-6], 5e-6)

    def bind(self, workload):
        pass


class Interrupted(Measurer):
    def measure(self, candidates):
        yield from super().measure(candidates)
        raise KeyboardInterrupt
"""
LOGGED = '{"rows": 48}\n\n{"rows": 64}\n{"rows": 64}\n'


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("shapes") / "shapes_of_mine.py"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def words_of(file: str, measurer: str = "Measurer") -> tuple[str, ...]:
    tuning = ("--trials", "4", "--measurer", f"{file}:{measurer}")
    return ("tune-shapes", f"{file}:scale", "--width", "16", *tuning)


def test_ranges_and_a_log_of_calls_are_tuned_and_written(file: str, tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    log.write_text(LOGGED, encoding="utf-8")
    names = ("choice.py", "set.html", "set.json", "scale.so")
    python, report, saved, library = (tmp_path / name for name in names)
    files = ("--python", python, "--report", report, "--output", saved, "--library", library, "--c")
    shapes = ("--shapes", "rows=8:40", "--exact", "0", "--log", log)
    said = document(*words_of(file), *shapes, *files, "--database", tmp_path / "tune.db")
    assert (said["template"], said["failed"], said["interrupted"]) == ("scale", {}, False)
    assert {one["extents"]["rows"]: one["weight"] for one in said["points"]} == {48: 1.0, 64: 2.0}
    assert {one["origin"] for one in said["points"]} <= {"tuned", "carried over"}
    [found] = said["ranges"]
    assert found["bounds"] == {"rows": [8, 40]} and found["kernels"]
    assert [one["kernel"] for one in found["regions"]] == [0] and found["loss"] == 0
    assert len(found["left_out_losses"]) == found["samples"] < found["verified"]
    assert "def scale_range_0(rows):" in python.read_text(encoding="utf-8")
    ast.parse(python.read_text(encoding="utf-8"))
    assert "<h1>scale</h1>" in report.read_text(encoding="utf-8")
    assert (said["python"], said["report"], said["set"]) == (str(python), str(report), str(saved))
    assert "int scale_tensors(" in library.with_suffix(".h").read_text(encoding="utf-8")
    assert "scale_range_0" in sl.load(library).functions
    with sl.open_database(tmp_path / "tune.db", read_only=True) as database:
        assert database.count() > 4


def test_what_has_no_kernels_is_said_with_the_exit_code(file: str) -> None:
    found = call(*words_of(file), "--shapes", "rows=7", "--shapes", "rows=9", code=1)
    assert "failed: rows=7" in found.stdout and "seven is wrong" in found.stdout
    assert "rows=9: " in found.stdout and "nothing is stored" in found.stderr
    none = call(*words_of(file), "--shapes", "rows=7", code=1)
    assert "works for none of the shapes" in none.stderr and "Traceback" not in none.stderr


def test_ctrl_c_tells_what_there_is(file: str) -> None:
    shapes = ("--shapes", "rows=9", "--shapes", "rows=900")
    said = document(*words_of(file, "Interrupted"), *shapes, code=130)
    assert said["interrupted"]
    assert [one["origin"] for one in said["points"]].count("default schedule") == 1


def test_a_file_that_cannot_be_written_does_not_lose_the_result(file: str) -> None:
    words = (*words_of(file), "--shapes", "rows=9", "--report", "/dev/full")
    said = document(*words, code=1)
    assert said["points"][0]["trials"] == 4 and "No space left" in said["error"]
    assert "report" not in said


def test_an_operator_is_a_template() -> None:
    asked = shapes_of(["n=1:512,m=64"], None)
    assert asked == [{"n": (1, 512), "m": 64}]
    template = template_of("matmul", ["--k", "32", "--dtype", "float16"], asked)
    assert template.__name__ == "matmul"
    made = template(n=3, m=64)
    assert made.key == sl.workloads.matmul(3, 64, 32, dtype="float16").key


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("matmull", "--shapes", "n=4"), "did you mean 'matmul'"),
        (("matmul",), "no shape is given: name some with --shapes"),
        (("matmul", "--shapes", "q=4"), "matmul has no extent 'q'; it takes n (128), m (128)"),
        (("matmul", "--shapes", "N=4"), "did you mean 'n'?"),
        (("matmul", "--shapes", "n"), "'n' is no extent; write rows=1:512"),
        (("matmul", "--shapes", "n=4,,m=2"), "'' is no extent"),
        (("matmul", "--shapes", "n=4,n=5"), "--shapes n=4,n=5: n is given twice"),
        (("matmul", "--shapes", "n=four"), "n=four; give a whole number, or low:high"),
        (("matmul", "--shapes", "n=1:2:3"), "n=1:2:3; give a whole number, or low:high"),
        (("matmul", "--shapes", "n=9:1"), "n=9:1; the range is empty"),
        (("matmul", "--shapes", "n=0:4"), "n=0:4; extents are at least 1"),
        (("matmul", "--shapes", "n=4", "--n", "4"), "n is given twice"),
        (("matmul", "--shapes", "n=4", "--q", "4"), "no option --q"),
        (("matmul", "--shapes", "n=4", "--share", "1.5"), "--share 1.5; give a fraction such as"),
        (("matmul", "--shapes", "n=4", "--loss", "-1"), "--loss -1.0; give a fraction such as"),
        (("matmul", "--shapes", "n=4", "--kernels", "0"), "--kernels 0; give a whole number"),
        (("matmul", "--shapes", "n=4", "--python", "p.py"), "--python is of ranges"),
        (("matmul", "--shapes", "n=4", "--library", "no/a.so"), "there is no folder no"),
        (("matmul", "--shapes", "n=4", "--c"), "--c goes with --library FILE"),
        (("matmul", "--log", "nowhere.jsonl"), "nowhere.jsonl: there is no such file"),
        (("mine.tvmscript", "--shapes", "n=4"), "no such file"),
        (("nowhere.py:f", "--shapes", "n=4"), "no such file"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    words: Sequence[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = call("tune-shapes", *words, code=2)
    assert said in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr and not found.stdout
    assert list(tmp_path.iterdir()) == []


def test_wrong_templates_and_logs(file: str, tmp_path: Path) -> None:
    def said(*words: str | Path) -> str:
        return str(call("tune-shapes", *words, code=2).stderr)

    assert "name the function of extents, as" in said(file, "--shapes", "rows=4")
    assert "is no function of extents, but an int" in said(f"{file}:number", "--shapes", "n=4")
    assert "needs width: write it into --shapes" in said(f"{file}:scale", "--shapes", "rows=4")
    wrong = said(f"{file}:scale", "--shapes", "rows=4,with=4")
    assert "no extent 'with'; did you mean 'width'? it takes rows, width, factor (2.0)" in wrong
    mixed = said(f"{file}:scale", "--shapes", "rows=4,width=4", "--shapes", "rows=4")
    assert "shape 1 has the extents rows, and the first one rows, width" in mixed
    script = tmp_path / "one.tvmscript"
    script.touch()
    assert "is one program; a template is a function" in said(script, "--shapes", "n=4")
    log = tmp_path / "calls.jsonl"
    for text, why in {
        '{"n": 4}\nn=4': "line 2: not JSON",
        "[4]": 'line 1: give extents by name, as in {"rows": 64}',
        '{"n": "four"}': "an extent is a whole number",
    }.items():
        log.write_text(text, encoding="utf-8")
        assert why in said("matmul", "--log", log)
    log.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is no text"):
        shapes_of([], log)
