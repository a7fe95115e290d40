"""The demo says for each kernel what the README promises, and what to do with it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import schedlang as sl
from tests.examples.conftest import EXAMPLES

pytestmark = pytest.mark.slow

LINE = re.compile(
    r"(?P<name>\w+): unscheduled (?P<before>[\d.e+]+ \w+), best (?P<best>[\d.e+]+ \w+), "
    r"(?P<rate>[\d.]+) GFLOPS, (?P<speedup>\d+)x faster, outputs (?P<state>[\w ]+), in \d+ s"
)
TRIALS = "4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(folder: Path, environment: dict[str, str]) -> str:
    """What it prints where nothing is a terminal."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py", "--trials", TRIALS],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_each_kernel_has_its_figures_and_is_verified(printed: str) -> None:
    found = [match for line in printed.splitlines() if (match := LINE.fullmatch(line))]
    assert [match["name"] for match in found] == ["matmul", "C2D"]
    for match in found:
        assert match["state"] == "verified"
        assert float(match["rate"]) > 0


def test_each_kernel_has_its_trace_as_python(printed: str) -> None:
    """Between the heading and the figures there is a program that makes ``sch``."""
    _, *parts = re.split(r"# The best of 4 candidates for (.*)\n", printed)
    workloads, rest = parts[::2], parts[1::2]
    assert len(workloads) == 2
    for source, text in zip(workloads, rest, strict=True):
        code, _, _ = LINE.sub("\0", text).partition("\0")
        made: dict[str, object] = {}
        exec(compile(code, source, "exec"), made)
        sch = made["sch"]
        assert isinstance(sch, sl.Schedule)
        assert str(sch.workload) == source
        assert "multi_level_tiling" in code and len(sch.trace) > 10


def test_it_says_what_it_did(printed: str, folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["demo.db"]
    assert "demo.db holds every measurement" in printed
    assert "and timed. 8 were measured now.\n" in printed
    assert [line for line in printed.splitlines() if line.startswith("[")] == [
        "[1/2] matmul: measuring up to 4 candidates; Ctrl-C stops",
        "[2/2] C2D: measuring up to 4 candidates; Ctrl-C stops",
    ]


def test_what_to_do_next_works(
    printed: str, folder: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """As it is printed, in the same folder."""
    _, _, after = printed.partition("== What to do next")
    steps = textwrap.dedent("\n".join(line for line in after.splitlines() if line[:4] == "    "))
    assert "sl.best(workload" in steps and "sl.apply(" in steps
    script = tmp_path / "next.py"
    script.write_text(steps + "\nprint(callable(kernel), len(mod.functions))\n")
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "True 1"
    assert "multi_level_tiling" in done.stdout and "def main(" in done.stdout
    (folder / "matmul.so").unlink()


def test_on_a_terminal_it_goes_on_from_the_file(
    printed: str, folder: Path, environment: dict[str, str]
) -> None:
    """And shows a bar; where its output is no terminal, it prints no control characters."""
    assert "\x1b" not in printed and "\r" not in printed
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "demo.py", "--trials", "5"],
        cwd=folder,
        env=environment | {"TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "tuning matmul" in text
    assert "2 were measured now.\r\n8 were in demo.db before; delete" in text
    assert "== What to do next" in text
