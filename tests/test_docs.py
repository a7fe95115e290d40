"""Check the documentation: its Python runs and prints what the page shows, and links resolve.

Each file is one script, each section of CONTRIBUTING.md is one too. A fresh Python runs a script in
an empty folder; pytest runs it if it defines tests. Lines keep their numbers, so a traceback points
into the documentation. A block of text right after a block of Python is the exact output of that
block; ``...`` stands for anything, and ``--update-golden`` rewrites the blocks that differ. mypy
checks the Python of CONTRIBUTING.md in strict mode, with the settings of the library.

A comment before a block changes this: ``<!-- not run -->`` skips the block, and ``<!-- from FILE
-->`` says that it quotes a file of the repository.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
FILES = [ROOT / "README.md", CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "schedlang|modules|search|targets|tests|examples|docs|benchmarks"
NOT_RUN = "<!-- not run -->"
QUOTED = re.compile(r"<!-- from (\S+) -->")
MARK = "\x1e"


@dataclass
class Block:
    """A fenced block; ``first`` is the number of its first line of content, from 0."""

    language: str
    first: int
    lines: list[str]
    before: str

    @property
    def is_run(self) -> bool:
        """Whether it is Python that runs."""
        left_alone = self.before == NOT_RUN or QUOTED.fullmatch(self.before)
        return self.language == "python" and not left_alone


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text; ``before`` is the last line with text before one."""
    block: Block | None = None
    before = ""
    for number, line in enumerate(text.splitlines()):
        if block is None and line.startswith("```"):
            block = Block(line[3:].strip(), number + 1, [], before)
        elif block is not None and line == "```":
            yield block
            block, before = None, "```"
        elif block is not None:
            block.lines.append(line)
        elif line.strip():
            before = line.strip()
    assert block is None, f"the block of line {block.first} does not end"


def script_of(text: str, section: str | None = None) -> tuple[str, dict[int, str]]:
    """The file, or one section of it, as a script, and the expected output by line of its block."""
    lines = [""] * (text.count("\n") + 2)
    inside = lines_of_section(text, section)
    expected: dict[int, str] = {}
    running: Block | None = None
    for block in blocks_of(text):
        if block.is_run and block.first in inside:
            end = block.first + len(block.lines)
            lines[block.first : end] = block.lines
            # The closing fence gives the line for the mark that separates the outputs.
            lines[end] = f"print({MARK + str(block.first)!r}, flush=True)"
            running = block
        else:
            if block.language == "text" and block.before == "```" and running is not None:
                expected[running.first] = "\n".join(block.lines)
            running = None
    return "\n".join(lines), expected


def lines_of_section(text: str, section: str | None) -> range:
    """The lines below the heading ``## section``, up to the next one; all lines for ``None``."""
    lines = text.splitlines()
    if section is None:
        return range(len(lines))
    first = lines.index(f"## {section}")
    rest = (k for k in range(first + 1, len(lines)) if lines[k].startswith("## "))
    return range(first, next(rest, len(lines)))


@dataclass(frozen=True)
class Script:
    """What runs in one process: a file, or a section of it."""

    file: Path
    section: str | None = None

    def __str__(self) -> str:
        name = str(self.file.relative_to(ROOT))
        return f"{name}: {self.section}" if self.section else name

    @property
    def file_name(self) -> str:
        """The name of the Python file, which is the module's name in what is printed."""
        words = self.section or self.file.stem
        return re.sub(r"\W+", "_", words.lower()) + ".py"

    def read(self) -> tuple[str, dict[int, str]]:
        """The script and its expected output by line."""
        return script_of(self.file.read_text(encoding="utf-8"), self.section)


def scripts() -> list[Script]:
    """All scripts of the documentation."""
    found = []
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        headings = re.findall(r"^## (.*)$", text, re.M) if file == CONTRIBUTING else [None]
        found += [Script(file, heading) for heading in headings]
    # The script of ARCHITECTURE is run by a test of its own.
    return [one for one in found if one.file != ARCHITECTURE and one.read()[0].strip()]


def outputs_of(printed: str) -> dict[int, str]:
    """What each block printed, by its line."""
    parts = re.split(rf"{MARK}(\d+)\n", printed)
    found = {int(line): text for text, line in zip(parts[0::2], parts[1::2], strict=False)}
    return {**found, -1: parts[-1]}  # what follows the last block


def agrees(printed: str, expected: str) -> bool:
    """Whether the texts are equal, up to space at line ends; ``...`` stands for anything."""
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    pattern = re.escape(expected.strip("\n")).replace(re.escape("..."), ".*?")
    return re.fullmatch(pattern, "\n".join(lines), re.DOTALL) is not None


def with_text(text: str, line: int, wanted: str) -> str:
    """The file with other content in the text block after the block of Python at ``line``."""
    blocks = list(blocks_of(text))
    after = next(b for a, b in itertools.pairwise(blocks) if a.first == line)
    lines = text.split("\n")
    shown = [part.rstrip() for part in wanted.strip("\n").splitlines()]
    lines[after.first : after.first + len(after.lines)] = shown
    return "\n".join(lines)


def run_script(script: Script, code: str, folder: Path) -> dict[int, str]:
    """What each block prints, by its line; fails with a traceback that has the file's lines."""
    path = folder / script.file_name
    path.write_text(code, encoding="utf-8")
    empty = folder / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
    has_tests = re.search(r"^class Test|^def test_", code, re.M)
    by_pytest = ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    run = subprocess.run(
        [sys.executable, *(by_pytest if has_tests else []), str(path)],
        cwd=empty,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, f"{script} (lines are those of the file):\n{run.stderr}{run.stdout}"
    return outputs_of(run.stdout.replace(str(folder), "..."))


@pytest.mark.parametrize("script", scripts(), ids=str)
def test_what_a_file_shows_is_what_runs(
    script: Script, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
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


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for file in (ROOT / "docs").rglob("*.md"):
        assert file.name == "README.md" or f"({file.relative_to(ROOT / 'docs')})" in index


def test_the_reference_of_instructions_is_current() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate_reference.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.OUTPUT.read_text(encoding="utf-8") == generate.generate(), (
        "run python docs/generate_reference.py"
    )


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
