"""``schedlang survey``, and ``schedlang export`` of a recorded space."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import schedlang as sl
from schedlang.lab import to_kernel_tuner, to_t1, to_t4
from schedlang.tuning.surveys import UnfinishedSurvey
from tests.cli.calling import SIZES, call, document
from tests.lab.made_up_space import made_up

WORKLOAD = sl.workloads.matmul(16, 16, 16)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a recorded space."""
    file = tmp_path_factory.mktemp("spaces") / "mm.space"
    part = sl.default_space("cpu").restricted(WORKLOAD, size=12)
    made_up(part, WORKLOAD, [sl.Status.CRASHED]).save(file)
    return file


def test_a_survey_writes_a_recorded_space(tmp_path: Path) -> None:
    file, database = tmp_path / "mm.space", tmp_path / "mm.db"
    words = (*SIZES, "--size", "4", "--database", database, "--output", file, "--no-progress")
    said = document("survey", *words)
    recorded = sl.load_survey(file)
    assert said["space"] == str(file) and said["workload"] == "matmul"
    assert (said["programs"], said["ways"]) == (len(recorded.programs), len(recorded.ways))
    assert said["best"] == pytest.approx(recorded.optimum, rel=0.05)  # files keep 16 samples
    assert recorded.workload.key == WORKLOAD.key == said["workload_key"]
    assert said["failed"] == sum(not one.samples for one in recorded.programs)
    with sl.open_database(database, read_only=True) as held:
        assert held.count() >= said["programs"]
    text = call("survey", *words).stdout  # its programs are in the database
    assert f"{said['programs']} programs on {said['ways']} ways" in text
    assert "unscheduled" in text and text.endswith(f"wrote {file}\n")


def test_a_survey_that_runs_out_of_time_says_how_to_go_on(tmp_path: Path) -> None:
    file, database = tmp_path / "my mm.space", tmp_path / "mm.db"
    words = (*SIZES, "--size", "4", "--seconds", "0.5e-6", "--output", file, "--no-progress")
    kept = document("survey", *words, "--database", database, code=1)
    assert 0 < kept["missing"] == kept["programs"]
    assert kept["error"].startswith(f"{kept['missing']} of {kept['programs']} programs are not")
    assert kept["error"].endswith(f"; to go on for as long again: {kept['command']}")
    command = shlex.split(kept["command"])
    assert command[:3] == ["schedlang", "survey", "matmul"] and command[-6:] == list(SIZES[1:])
    options = dict(zip(command[3:-6:2], command[4:-6:2], strict=True))
    assert options == {
        "--size": "4",
        "--seconds": "1e-06",
        "--database": str(database),
        "--output": str(file),
    }
    lost = call("survey", *words, code=1)
    assert "--database FILE keeps what is measured" in lost.stderr
    assert f"--database '{file.with_suffix('.db')}' --seconds 1e-06" in lost.stderr
    assert not lost.stdout and not file.exists()
    # The command is one that the command line takes; it has all the time it needs here.
    command[command.index("--seconds") + 1] = "300"
    assert document(*command[1:])["programs"] == kept["programs"]


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        result: Any = SimpleNamespace(finished="interrupted; more", interrupted=True)
        raise UnfinishedSurvey("", result, 1_234, 5_678)

    monkeypatch.setattr(sl, "survey", interrupted)
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import schedlang as sl\n"
        "def square(size):\n"
        "    return sl.workloads.matmul(size, size, size)\n",
        encoding="utf-8",
    )
    words = (f"{mine}:square", "--database", tmp_path / "mm.db", "--seconds", "9")
    said = document("survey", *words, "-o", tmp_path / "a.space", "--", "--size", "8", code=130)
    assert "1,234 of 5,678 programs are not measured (interrupted); to go on: " in said["error"]
    # The seconds stay what they were: they are not over.
    assert "--seconds 9.0 --database" in said["command"]
    assert said["command"].endswith("a.space -- --size 8")


def test_a_space_of_the_user(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import schedlang as sl\n"
        "@sl.module\n"
        "def rows(sch: sl.Schedule, block: sl.BlockRV) -> None:\n"
        "    loop = sch.get_loops(block)[0]\n"
        "    sch.split(loop, sch.sample_perfect_tile(loop, 2, name='rows'))\n"
        "space = sl.Space([rows])\n",
        encoding="utf-8",
    )
    words = (*SIZES, "--output", tmp_path / "mine.space", "--no-progress")
    said = document("survey", *words, "--space", f"{mine}:space")
    assert said["ways"] == 5  # 16 = 1 * 16 = ... = 16 * 1
    wrong = call("survey", *words, "--space", f"{mine}:space", "--size", "4", code=2).stderr
    assert "leave out --size" in wrong
    # With a module of the user, the part is one of the target's own space with the module.
    said = document("survey", *words, "--module", f"{mine}:rows", "--size", "3")
    assert said["ways"] < 20


def test_a_space_in_other_formats(space: Path, tmp_path: Path) -> None:
    recorded = sl.load_survey(space)
    t1, t4, cache = (tmp_path / name for name in ("mm_T1.json", "mm_T4.json", "mm.json"))
    said = document("export", space, "--t1", t1, "--t4", t4, "--kernel-tuner", cache)
    program = tmp_path / "mm_T1.tvmscript"
    assert sorted(said["files"]) == sorted(str(one) for one in (t1, t4, cache, program))
    assert (said["ways"], said["programs"]) == (len(recorded.ways), len(recorded.programs))
    assert json.loads(t1.read_text()) == to_t1(recorded, program.name, str(cache))
    assert json.loads(t4.read_text()) == json.loads(json.dumps(to_t4(recorded)))
    assert json.loads(cache.read_text()) == to_kernel_tuner(recorded)
    assert sl.workloads.from_script(program.read_text(), "matmul").key == WORKLOAD.key
    text = call("export", space, "--t4", t4).stdout
    assert text == f"matmul: {said['ways']} ways to {said['programs']} programs\nwrote {t4}\n"
    call("export", space, "--t1", t1)  # the program is the same
    program.write_text("# mine\n", encoding="utf-8")
    assert "give --t1 another name" in call("export", space, "--t1", t1, code=2).stderr
    assert program.read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--t4", "a.json"), "give its file", 2),
        (("SPACE", "--t4", "a.json", "--database", "tune.db"), "does not go with --database", 2),
        (("SPACE", "--t4", "a.json", "--library", "a.so"), "does not go with --library", 2),
        (("SPACE", "--n", "4", "--t4", "a.json"), "takes no sizes: leave out '--n 4'", 2),
        (("SPACE", "--t4", "a.json", "--t1", "a.json"), "give each a file of its own", 2),
        (("SPACE", "--t4", "no/a.json"), "there is no folder no", 2),
        (("SPACES", "--t4", "a.json"), "there is no such file; did you mean", 2),
        (("text.space", "--t4", "a.json"), "text.space: ", 1),
        (("SPACE",), "--t4 FILE", 2),
        (("matmul", "--library", "a.so"), "give --database FILE", 2),
    ],
)
def test_wrong_exports_say_what_is_wrong(
    words: tuple[str, ...],
    said: str,
    code: int,
    space: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.space").write_text("no space", encoding="utf-8")
    found = call("export", *(one.replace("SPACE", str(space)) for one in words), code=code)
    [line] = found.stderr.splitlines()
    assert said in line and not found.stdout
    assert [one.name for one in tmp_path.iterdir()] == ["text.space"]
