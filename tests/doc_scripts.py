"""Find the Python scripts of the documentation, run them, and read their output.

Each file is one script, each section of CONTRIBUTING.md is one too. A fresh Python runs a script in
an empty folder; pytest runs it if it defines tests. Lines keep their numbers, so a traceback points
into the documentation. A block of text right after a block of Python is the exact output of that
block; ``...`` stands for anything.

A comment before a block changes this: ``<!-- not run -->`` skips the block, and ``<!-- from FILE
-->`` says that it quotes a file of the repository. A file with ``<!-- needs PACKAGE -->`` is run
where that package is installed.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
FILES = [ROOT / "README.md", CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "<!-- not run -->"
QUOTED = re.compile(r"<!-- from (\S+) -->")
NEEDS = re.compile(r"^<!-- needs (\w+) -->$", re.MULTILINE)
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
            # The closing fence gives the line for the mark that separates the outputs. Processes
            # that a script starts import it.
            printed = f"print({MARK + str(block.first)!r}, flush=True)"
            lines[end] = f"if __name__ != '__mp_main__': {printed}"
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
    """A unit that runs in one process: a file, or a section of it."""

    file: Path
    section: str | None = None

    def __str__(self) -> str:
        name = str(self.file.relative_to(ROOT))
        return f"{name}: {self.section}" if self.section else name

    @property
    def file_name(self) -> str:
        """The name of the Python file, which is also the module's name in the output."""
        words = self.section or self.file.stem
        return re.sub(r"\W+", "_", words.lower()) + ".py"

    @property
    def needs(self) -> list[str]:
        """The optional packages that the file names."""
        return NEEDS.findall(self.file.read_text(encoding="utf-8"))

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
    """Return each block's output by its line; a failure has a traceback with the file's lines."""
    path = folder / script.file_name
    path.write_text(code, encoding="utf-8")
    empty = folder / "empty"
    empty.mkdir()
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    if "torch" in script.needs:  # other scripts do not find it, see tests/conftest.py
        environment["PYTHONPATH"] = str(ROOT)
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
