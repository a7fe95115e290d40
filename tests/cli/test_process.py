"""The command line as a process: what it imports, and where its output goes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import schedlang as sl
from tests.cli.calling import SIZES, call, document
from tests.cli.conftest import Tuned

LISTED = """
import contextlib, sys
import schedlang.cli
import schedlang.cli.app
verbs = [one.name for one in schedlang.cli.app.app.registered_commands]
assert len(verbs) > 12
for words in (["--help"], *([verb, "--help"] for verb in verbs)):
    sys.argv = ["schedlang", *words]
    with contextlib.suppress(SystemExit):
        schedlang.cli.main()
import os
os.environ["_SCHEDLANG_COMPLETE"] = "complete_bash"
os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "schedlang tune mat", "2"
sys.argv = ["schedlang"]
with contextlib.suppress(SystemExit):
    schedlang.cli.main()
print("imported:", *sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_help_and_completion_are_quick() -> None:
    """TVM takes seconds to import; who asks for help must not wait for it."""
    words = [sys.executable, "-c", LISTED]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "--trials" in said and "matmul" in said.splitlines()
    imported = said.rpartition("imported:")[2].split()
    assert "typer" in imported
    assert not {"tvm", "torch", "altair", "numpy", "scipy", "lightgbm"} & set(imported)


WITHOUT_TVM = """
import contextlib, io, json, sys
import schedlang.cli
HEAVY = {"tvm", "torch", "altair", "lightgbm", "scipy"}
for words in json.loads(sys.argv[1]):
    sys.argv = ["schedlang", *words]
    code, said = 0, io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            schedlang.cli.main()
        except SystemExit as end:
            code = end.code
    heavy = sorted(HEAVY & set(sys.modules))
    print(json.dumps([words, code, said.getvalue(), heavy]), flush=True)
    assert not heavy, (words, heavy)
"""


def test_a_database_is_read_and_words_are_checked_without_tvm(
    tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM takes seconds to import: neither records nor mistakes wait for it."""
    monkeypatch.chdir(tmp_path)
    file = str(tuned.file)
    mine = tmp_path / "mine.py"
    mine.write_text("import tvm\n", encoding="utf-8")
    read = [
        ["summary", file],
        ["summary", file, "--json"],
        ["show", file, "--as", "json"],
        ["show", file, "matmul", "--as", "decisions"],
        ["show", f"{file}@{tuned.candidate}", "--as", "decisions", "--json"],
        ["show", f"{file}#1", "--as", "decisions"],
        ["merge", file, "--into", "copy.db"],
        ["prune", file, "--keep-best", "1", "--dry-run"],
    ]
    sizes, at = ["matmul", "--n", "4"], ["--database", file]
    wrong = [
        ["tune", "matmull"],
        ["tune", "matmul", "--q", "4"],
        ["tune", "matmul", "--n"],
        ["tune", *sizes, "--trails", "3"],
        ["tune", *sizes, "--trials", "0"],
        ["tune", *sizes, "--verify", "winners"],
        ["tune", "norm", "--batch", "4"],
        ["tune", *sizes, "--search", "evolutionery"],
        ["tune", *sizes, "--target", "gpux"],
        ["tune", *sizes, "--inputs", "nowhere.npz"],
        ["tune", *sizes, "--space", "nowhere.py:space"],
        ["tune", *sizes, "--callback", "see"],
        ["tune", *sizes, "--database", "no/tune.db"],
        ["tune", "nowhere.py:f"],
        ["tune", "nowhere.tvmscript"],
        ["survey", "matmull", "-o", "mm.space"],
        ["survey", *sizes, "-o", "no/mm.space"],
        ["survey", *sizes, "-o", "mm.space", "--size", "0"],
        ["tune-network", "nowhere.onnx"],
        ["tune-network", f"{mine}:net", "--scheduler", "gradiant"],
        ["tune-network", f"{mine}:net", "--objective", "speed"],
        ["tune-shapes", "matmul"],
        ["tune-shapes", "matmul", "--shapes", "q=4"],
        ["tune-shapes", "matmul", "--shapes", "n=9:1"],
        ["tune-shapes", "matmul", "--shapes", "n=4", "--share", "2"],
        ["tune-shapes", "matmul", "--log", "nowhere.jsonl"],
        ["tune-shapes", f"{mine}", "--shapes", "n=4"],
        ["compile", "nowhere.onnx"],
        ["best", *sizes, "--database", "nowhere.db"],
        ["best", "matmull", *at],
        ["best", "matmul", "--q", "4", *at],
        ["best", *sizes, *at, "--target", "gpux"],
        ["show", f"{file}@99"],
        ["show", f"{file}#99"],
        ["show", file, "matmull"],
        ["show", file, "matmul", "--target", "gpux"],
        ["run", f"{file}@99"],
        ["export", "matmull", *at, "--library", "mm.so"],
        ["export", "nowhere.space", "--t4", "mm.json"],
        ["report", f"{file}#99"],
        ["compare", f"{file}#99", f"{file}#1"],
        ["compare", f"{file}@99", f"{file}@1"],
        ["prune", file],
        ["import", "nowhere", "--database", "new.db"],
    ]
    script = [sys.executable, "-c", WITHOUT_TVM, json.dumps(read + wrong)]
    found = subprocess.run(script, capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert found.returncode == 0, (answers[-1:], found.stderr)
    for words, code, said, _ in answers:
        assert (code == 0) == (words in read), (words, said)
        assert "Traceback" not in said
    assert len(answers) == len(read) + len(wrong)


def test_python_m() -> None:
    words = [sys.executable, "-m", "schedlang", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert said.stdout == f"schedlang {sl.__version__}\n"


def test_whoever_reads_the_output_may_stop(tuned: Tuned) -> None:
    """As ``| head -1`` does: no error, and no message."""
    script = 'set -o pipefail; "$0" -m schedlang show "$1" --as json | head -c 1'
    words = ["bash", "-c", script, sys.executable, str(tuned.file)]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "schedlang", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("summary",), "Missing argument 'DATABASE' ("),
        (("summary", "a.db", "--foo"), "No such option: --foo"),
        (("foo",), "No such command 'foo'"),
        (("run", "a.db", "--rounds", "0"), "'--rounds'"),
        (("show", "a.db", "--as", "x"), "'tvmscript'"),
    ],
)
def test_words_that_no_verb_takes(words: tuple[str, ...], said: str) -> None:
    """One message, and with --json a document, as of every other error."""
    found = run(*words)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("schedlang: ") and len(found.stderr.splitlines()) == 1
    assert said in found.stderr and "--help says more)" in found.stderr
    as_json = run(*words, "--json")
    assert as_json.returncode == 2 and said in json.loads(as_json.stdout)["error"]


def test_without_a_verb_the_help_is_shown() -> None:
    found = run()
    assert found.returncode == 2 and "tune-network" in found.stdout + found.stderr
    assert run("-h").stdout == run("--help").stdout


NOISY = """
import os, sys
from tests.tuning.scripted import Scripted
import schedlang as sl
os.write(1, b"of C++")
print("import")
def program():
    print("call")
    return sl.workloads.matmul(8, 8, 8)
def measurer():
    return Scripted([3e-6, 2e-6, 4e-6], 5e-6)
def see(trial):
    print("trial")
"""


def test_what_others_print_is_not_in_the_document(tmp_path: Path) -> None:
    file = tmp_path / "noisy.py"
    file.write_text(NOISY, encoding="utf-8")
    words = ("--trials", "1", "--measurer", f"{file}:measurer", "--callback", f"{file}:see")
    found = run("tune", f"{file}:program", *words, "--json")
    assert json.loads(found.stdout)["workload"] == "matmul", found.stderr
    for printed in ("of C++", "import", "call", "trial"):
        assert printed in found.stderr


def test_control_characters_of_a_database_are_shown_as_escapes(
    programs: str, tmp_path: Path
) -> None:
    file = tmp_path / "notes.db"
    words = (*SIZES, "--trials", "1", "--measurer", f"{programs}:measurer", "--database", str(file))
    call("tune", *words, "--notes", "\x1b]0;title\x07 two\nlines")
    found = run("summary", str(file))
    assert "\\x1b]0;title\\x07 two lines" in found.stdout and "\x1b" not in found.stdout
    assert document("summary", file)["runs"][0]["notes"] == "\x1b]0;title\x07 two\nlines"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["show", "run", "summary"])
def test_names_are_shown_on_one_line_with_their_marks_as_escapes(
    programs: str, tmp_path: Path, verb: str
) -> None:
    file = tmp_path / "names.db"
    words = (*SIZES, "--trials", "1", "--measurer", f"{programs}:measurer", "--database", str(file))
    call("tune", *words)
    name = "matmul\u202eabc\u2066\u2028\x85\nrecord 9 of softmax"
    with sqlite3.connect(file) as opened:
        opened.execute("UPDATE record SET workload_name = ?", (name,))
    shown = run(verb, str(file)).stdout
    assert "matmul\\u202eabc\\u2066\\u2028\\x85 record 9 of softmax" in shown
    assert not set("\u202e\u2066\u2028\x85") & set(shown)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("words", ["summary", "summary --json", "--version"])
def test_outputs_may_be_closed(tuned: Tuned, words: str, closed: str) -> None:
    verb = f"{words} '{tuned.file}'" if words != "--version" else words
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m schedlang {verb} {closed}', sys.executable],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["--help", "summary --help", "--version"])
def test_help_that_cannot_be_written(words: str) -> None:
    script = f'"$0" -m schedlang {words} > /dev/full'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr == "schedlang: the output cannot be written: No space left on device\n"


INTERRUPTED = """
import sys
class Finder:
    def find_spec(self, name, *_):
        if name == "schedlang.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
import schedlang.cli
schedlang.cli.main()
"""


def test_ctrl_c_while_it_starts() -> None:
    words = [sys.executable, "-c", INTERRUPTED]
    found = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stderr) == (130, "schedlang: interrupted\n")
