"""Another TVM or FFI than the one that schedlang needs is refused before it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedlang.requirements import FFI, TVM, fits, requirements


@pytest.fixture
def newer(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds a newer FFI installed than there is."""
    folder = tmp_path / "apache_tvm_ffi-0.1.15.post2.dist-info"
    folder.mkdir()
    text = "Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 0.1.15.post2\n"
    (folder / "METADATA").write_text(text, encoding="utf-8")
    paths = [str(tmp_path), os.environ["PYTHONPATH"]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def python(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120
    )


REMEDY = f'pip install "{FFI}{requirements()[FFI]}"'


@pytest.mark.parametrize("name", ["tune", "Schedule", "workloads", "compile_network"])
def test_names_that_need_tvm_name_the_remedy(newer: dict[str, str], name: str) -> None:
    found = python(newer, "-c", f"from schedlang import {name}")
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("schedlang.errors.VersionError: another version of TVM")
    assert f"{FFI} 0.1.15.post2, needed ==" in last and REMEDY in last
    assert found.returncode == 1


def test_what_needs_no_tvm_works(newer: dict[str, str]) -> None:
    code = "import schedlang, sys; print(schedlang.__version__, 'tvm' in sys.modules)"
    assert python(newer, "-c", code).stdout.strip().endswith("False")
    assert python(newer, "-m", "schedlang", "--version").stdout.startswith("schedlang ")
    assert "doctor" in python(newer, "-m", "schedlang", "--help").stdout


def test_the_command_line_names_the_remedy(newer: dict[str, str]) -> None:
    found = python(newer, "-m", "schedlang", "tune", "matmul", "--n", "8", "--m", "8", "--k", "8")
    assert found.returncode == 1 and found.stderr.startswith("schedlang: another version of TVM")
    assert REMEDY in found.stderr and "Traceback" not in found.stderr


def test_doctor_looks_at_all_that_needs_no_tvm(newer: dict[str, str]) -> None:
    found = python(newer, "-m", "schedlang", "doctor")
    assert found.returncode == 1 and REMEDY in found.stdout, found.stderr
    states = {line[6:20].strip(): line[:4].strip() for line in found.stdout.splitlines()}
    assert states["versions"] == "fail" and states["extras"] == "ok"
    assert states["tvm"] == states["cores"] == states["measuring"] == "warn"
    assert "not checked: this needs TVM in another version" in found.stdout


def test_it_can_be_tried(newer: dict[str, str]) -> None:
    tried = {**newer, "SCHEDLANG_ANY_TVM": "1"}
    found = python(tried, "-c", "import schedlang as sl; print(sl.workloads.matmul(8, 8, 8).name)")
    assert found.stdout.strip() == "matmul", found.stderr


def test_requirements_are_those_of_the_project() -> None:
    found = requirements()
    assert found[TVM].startswith("==") and found[FFI].startswith("==")
    assert found["numpy"] == ">=2.0,<3" and found["typer"].startswith(">=")


@pytest.mark.parametrize(
    ("version", "spec", "allowed"),
    [
        ("2.4.6", ">=2.0,<3", True),
        ("3.0", ">=2.0,<3", False),
        ("1.26.4", ">=2.0,<3", False),
        ("0.27.0.post1", "==0.27.0.post1", True),
        ("0.27.0", "==0.27.0.post1", False),
        ("2.4.9", "==2.4.*", True),
        ("2.41.0", "==2.4.*", False),
        ("2.10", ">=2.9", True),
        ("2.13.0+cpu", ">=2.6", True),
        ("1", "", True),
    ],
)
def test_versions(version: str, spec: str, allowed: bool) -> None:
    assert fits(version, spec) is allowed
