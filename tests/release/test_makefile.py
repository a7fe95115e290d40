"""`make` deletes no environment that it did not make."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Stands for `python3`: it makes environments without network, and notes what it is asked to run.
PYTHON = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$2" = venv ]; then
    for folder; do :; done
    case "$*" in *--clear*) rm -rf "$folder";; esac
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python"
fi
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the Makefile, and a program in place of Python."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(PYTHON.format(log=tmp_path / "log"))
    python.chmod(0o755)
    return tmp_path


def make(clone: Path, *targets: str) -> str:
    command = ["make", *targets, f"PYTHON={clone / 'python'}"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def users_environment(clone: Path) -> Path:
    """Make an environment as the tutorial does, with a file of the user's; return the file."""
    subprocess.run([clone / "python", "-m", "venv", ".venv"], cwd=clone, check=True)
    kept = clone / ".venv" / "lib" / "mine.py"
    kept.parent.mkdir()
    kept.write_text("mine")
    cache = clone / ".venv" / "lib" / "__pycache__"
    cache.mkdir()
    return kept


def test_an_environment_of_the_user_is_used_and_stays(clone: Path) -> None:
    kept = users_environment(clone)
    for target in ("demo", "docs", "test", "bench"):
        make(clone, target)
    (clone / "pyproject.toml").touch()
    make(clone, "demo")
    assert "stays: make did not make it" in make(clone, "clean")
    assert kept.read_text() == "mine"
    assert (kept.parent / "__pycache__").is_dir()
    log = (clone / "log").read_text().splitlines()
    assert sum("venv" in line for line in log) == 1, "the user's own call"
    assert any("examples/demo.py" in line for line in log)


def test_an_environment_of_make_is_made_once_and_removed(clone: Path) -> None:
    make(clone, "test")
    made = clone / ".venv" / "bin" / "python"
    assert made.exists()
    log = (clone / "log").read_text()
    assert ".[test-optional]" in log, "the tests of the front ends run"
    make(clone, "test")
    assert (clone / "log").read_text().count("pip install") == log.count("pip install")
    make(clone, "clean")
    assert not (clone / ".venv").exists()


def test_an_interrupted_environment_is_finished(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".made-by-make").touch()
    make(clone, "demo")
    assert (clone / ".venv" / "bin" / "python").exists()
