"""The documentation is true: its Python runs, what it prints is what stands there, links lead on.

Each file is one script, run by a fresh Python in an empty folder. Its lines have the numbers that
they have in the file, so a traceback points into the documentation. A block of text right after a
block of Python is what that block prints, to the letter; ``...`` stands for anything, and
``--update-golden`` rewrites the blocks that differ. Blocks after the comment ``<!-- not run -->``
are left alone.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "<!-- not run -->"
MARK = "\x1e"


@dataclass
class Block:
    """A fenced block; ``first`` is the number of its first line of content, from 0."""

    language: str
    first: int
    lines: list[str]
    before: str


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


def script_of(text: str) -> tuple[str, dict[int, str]]:
    """The file as one script, and by line of the block the output that stands after a block."""
    lines = [""] * (text.count("\n") + 2)
    expected: dict[int, str] = {}
    running: Block | None = None
    for block in blocks_of(text):
        if block.language == "python" and block.before != NOT_RUN:
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


def outputs_of(printed: str) -> dict[int, str]:
    """What each block printed, by its line."""
    parts = re.split(rf"{MARK}(\d+)\n", printed)
    return {int(line): text for text, line in zip(parts[0::2], parts[1::2], strict=False)}


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


def run_script(file: Path, script: str, folder: Path) -> dict[int, str]:
    """What each block of a file prints, by its line; fails with a traceback of the file's lines."""
    path = folder / f"{file.stem.lower()}.py"
    path.write_text(script, encoding="utf-8")
    empty = folder / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=empty,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, f"{file.name} (lines are those of the file):\n{run.stderr}"
    return outputs_of(run.stdout.replace(str(folder), "..."))


each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))


@each_file
def test_what_a_file_shows_is_what_runs(
    file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = file.read_text(encoding="utf-8")
    script, expected = script_of(text)
    if not script.strip():
        pytest.skip("it shows no Python")
    printed = run_script(file, script, tmp_path)
    differing = {line for line, wanted in expected.items() if not agrees(printed[line], wanted)}
    if differing and request.config.getoption("--update-golden"):
        for line in sorted(differing, reverse=True):
            text = with_text(text, line, printed[line])
        file.write_text(text, encoding="utf-8")
        return
    for line in differing:
        pytest.fail(
            f"{file.name}, line {line}: the block prints\n{printed[line]}\nand not\n"
            f"{expected[line]}\n\nif this is right: pytest --update-golden",
            pytrace=False,
        )


@each_file
def test_links_lead_to_files(file: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (file.parent / link).exists(), link


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
