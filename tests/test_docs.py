"""Check the documentation: its Python runs and prints what the page shows, and links resolve.

``doc_scripts.py`` says how a file becomes a script. ``--update-golden`` rewrites the output blocks
that differ. mypy checks the Python of CONTRIBUTING.md in strict mode, with the settings of the
library.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import schedlang as sl
from tests.doc_scripts import (
    ARCHITECTURE,
    CONTRIBUTING,
    FILES,
    MARK,
    NOT_RUN,
    QUOTED,
    ROOT,
    Script,
    agrees,
    blocks_of,
    run_script,
    script_of,
    scripts,
    with_text,
)

FOLDERS = "schedlang|modules|search|targets|tests|examples|docs|benchmarks"


# What a user runs first is always checked; all of it takes ten minutes of one process.
FIRST = ("README.md", "docs/tutorials/first_hour.md")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(one, id=str(one), marks=() if str(one) in FIRST else pytest.mark.slow)
        for one in scripts()
    ],
)
def test_what_a_file_shows_is_what_runs(
    script: Script, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for package in script.needs:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{script} needs {package}, which is not installed")
    code, expected = script.read()
    printed = run_script(script, code, tmp_path)
    differing = {line for line, wanted in expected.items() if not agrees(printed[line], wanted)}
    if differing and request.config.getoption("--update-golden"):
        text = script.file.read_text(encoding="utf-8")
        for line in sorted(differing, reverse=True):
            text = with_text(text, line, printed[line])
        script.file.write_text(text, encoding="utf-8")
        return
    for line in differing:
        pytest.fail(
            f"{script}, line {line}: the block prints\n{printed[line]}\nand not\n"
            f"{expected[line]}\n\nif this is right: pytest --update-golden",
            pytrace=False,
        )


def test_mypy_accepts_what_contributing_shows(tmp_path: Path) -> None:
    files = []
    for script in scripts():
        if script.file == CONTRIBUTING:
            path = tmp_path / script.file_name
            path.write_text(script.read()[0], encoding="utf-8")
            files.append(str(path))
    assert len(files) >= 5
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *files],
        cwd=ROOT,  # for the settings in pyproject.toml and the cache
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, f"lines are those of CONTRIBUTING.md:\n{run.stdout}{run.stderr}"


each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))


@each_file
def test_quoted_code_is_in_the_file_that_is_named(file: Path) -> None:
    for block in blocks_of(file.read_text(encoding="utf-8")):
        if quoted := QUOTED.fullmatch(block.before):
            source = (ROOT / quoted[1]).read_text(encoding="utf-8")
            # A quotation of a class's body is written without its indentation.
            indented = textwrap.indent("\n".join(block.lines), "    ")
            assert indented in source or "\n".join(block.lines) in source, f"line {block.first}"


@each_file
def test_links_lead_to_files(file: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (file.parent / link).exists(), link


@each_file
def test_files_and_names_in_the_prose_exist(file: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
    for name in re.findall(r"`([^`\n]+)`", prose):
        if re.fullmatch(rf"({FOLDERS})/[\w/.]*", name):
            assert (ROOT / name).exists(), name
        elif dotted := re.match(r"(?:python -m )?(schedlang(?:\.\w+)+)", name):
            pkgutil.resolve_name(dotted[1])


NOTE_FILES = """
import os, sys, threading
called = set()
def note(frame, event, arg):
    called.add(frame.f_code.co_filename)
threading.setprofile(note)
sys.setprofile(note)
"""


def test_the_files_on_the_way_of_a_workload_take_part_in_it(tmp_path: Path) -> None:
    code, _ = Script(ARCHITECTURE).read()
    shown = (
        "\nsys.setprofile(None)\nprint(*(os.path.realpath(file) for file in called), sep=chr(10))"
    )
    printed = run_script(Script(ARCHITECTURE), NOTE_FILES + code + shown, tmp_path)
    taking_part = {Path(line) for text in printed.values() for line in text.splitlines()}
    _, _, way = ARCHITECTURE.read_text(encoding="utf-8").partition("## The way of one workload")
    steps, _, _ = way.partition("\n## ")
    named = re.findall(r"`([\w/]+\.py)`", steps)
    assert len(named) > 15
    assert [name for name in named if (ROOT / name).resolve() not in taking_part] == []


def rooms() -> list[tuple[str, str]]:
    """Return file and function of each room of the walk, in order."""
    row = r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|"
    return re.findall(row, ARCHITECTURE.read_text(encoding="utf-8"), re.M)


class Scripted:
    """A measurer that makes its latencies up."""

    reference_latency = 1e-2

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for one in candidates:
            yield sl.Measurement(one.id, sl.Status.OK, (1e-3,), verified=True)


def test_a_small_tune_enters_the_rooms_of_the_walk_in_their_order(tmp_path: Path) -> None:
    walk = rooms()
    assert 8 <= len(walk) <= 12 and len(set(walk)) == len(walk)
    entered: dict[tuple[str, str], None] = {}
    wanted = {str((ROOT / file).resolve()): file for file, _ in walk}

    def note(frame: FrameType, event: str, arg: object) -> None:
        file = wanted.get(os.path.realpath(frame.f_code.co_filename)) if event == "call" else None
        if file is not None:
            entered.setdefault((file, frame.f_code.co_qualname))

    workload = sl.workloads.matmul(16, 16, 16)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        sl.tune(
            workload, trials=2, measurer=Scripted(), database=tmp_path / "tune.db", progress=False
        )
    finally:
        sys.setprofile(before)
    assert [room for room in entered if room in walk] == walk


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for file in (ROOT / "docs").rglob("*.md"):
        assert file.name == "README.md" or f"({file.relative_to(ROOT / 'docs')})" in index


def generator(name: str) -> Any:
    """A program of docs/ that writes pages from declarations."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_instructions_is_current() -> None:
    generate = generator("generate_reference")
    assert generate.OUTPUT.read_text(encoding="utf-8") == generate.generate(), (
        "run python docs/generate_reference.py"
    )


def test_the_tables_of_options_are_current() -> None:
    pages = generator("generate_options").generate()
    assert sorted(page.name for page in pages) == [
        "cli.md",
        "networks.md",
        "shapes.md",
        "tuning.md",
    ]
    for page, text in pages.items():
        assert page.read_text(encoding="utf-8") == text, "run python docs/generate_options.py"
        assert "`seed`" in text or "`--seed`" in text


def test_a_text_block_is_compared_with_what_the_block_before_it_prints() -> None:
    script, expected = script_of("a\n```python\nprint(1)\n```\n\n```text\n1\n```\n")
    assert script.splitlines()[2] == "print(1)"
    assert expected == {2: "1"}
    assert agrees("1 \n", "1") and agrees("a 12 b\nc\n", "a ... b\n...")
    assert not agrees("12\n", "1") and not agrees("", "1")
    assert script_of(f"{NOT_RUN}\n```python\nraise\n```\n\n```text\n1\n```\n")[1] == {}


def test_an_updated_block_holds_what_was_printed() -> None:
    text = "```python\nprint(1)\n```\n\n```text\n0\n0\n```\nb\n"
    updated = with_text(text, 1, "1 \n")
    assert updated == "```python\nprint(1)\n```\n\n```text\n1\n```\nb\n"
    assert script_of(updated)[1] == {1: "1"}


def test_a_section_is_a_script_of_its_own() -> None:
    text = "## a\n```python\nprint(1)\n```\n## b\n```python\nprint(2)\n```\n"
    script, _ = script_of(text, "a")
    assert "print(1)" in script and "print(2)" not in script
    assert script_of(text, "b")[0].splitlines()[6] == "print(2)"


def test_a_script_with_tests_is_run_by_pytest(tmp_path: Path) -> None:
    code = f"print('{MARK}1')\n\nclass TestIt:\n    def test_one(self):\n        assert False\n"
    with pytest.raises(AssertionError, match="test_one"):
        run_script(Script(CONTRIBUTING), code, tmp_path)
