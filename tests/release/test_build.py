"""Wheel and sdist hold everything, and the wheel works without the repository.

`make release-check` does the same with a fresh environment, and runs the demo in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import schedlang as sl

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def build(source: Path, folder: Path, *targets: str) -> None:
    wanted = [argument for target in targets for argument in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", *wanted, "--directory", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist."""
    pytest.importorskip("hatchling", reason="builds need hatchling: pip install hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder, "sdist", "wheel")
    return folder


def wheel_of(folder: Path) -> Path:
    [wheel] = folder.glob("*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(wheel).items() if ".dist-info/" in name}


def in_git() -> set[str]:
    """Files of the package in the repository, those behind the links by their name in it."""
    listed = subprocess.run(
        ["git", "ls-files", "schedlang", "modules", "search", "targets"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip(f"git cannot list the files of the repository: {listed.stderr.strip()}")
    names = [name for name in listed.stdout.splitlines() if not (ROOT / name).is_dir()]
    return {
        name if name.startswith("schedlang/") else f"schedlang/{name}"
        for name in names
        if (ROOT / name).exists()
    }


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    names = {name for name in contents(wheel_of(built)) if ".dist-info/" not in name}
    wanted = in_git()
    assert {"schedlang/py.typed", "schedlang/modules/__init__.py"} <= wanted
    assert wanted - names == set()
    assert {name for name in names if not name.startswith("schedlang/")} == set()
    assert not any("__pycache__" in name or name.endswith(".db") for name in names)


def test_the_wheel_says_what_it_is(built: Path) -> None:
    found = metadata(wheel_of(built))
    [text] = [data for name, data in found.items() if name.endswith("/METADATA")]
    said = message_from_bytes(text)
    assert said["Version"] == sl.__version__
    assert set(said.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert any(name.endswith("licenses/LICENSE") for name in found)


def test_the_sdist_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    assert (source / "CITATION.cff").exists() and (source / "examples" / "demo.py").exists()
    build(source, tmp_path / "again", "wheel")
    assert contents(wheel_of(tmp_path / "again")) == contents(wheel_of(built))


def test_the_wheel_works_without_the_repository(built: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_of(built)) as archive:
        archive.extractall(tmp_path / "packages")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'packages')!r})\n"
        "import schedlang as sl\n"
        "print(sl.__file__, sl.modules.__file__, sl.search.__file__, sl.targets.__file__)\n"
        "workload = sl.workloads.matmul(8, 8, 8)\n"
        "print(len(sl.default_space().sample(workload, seed=0).trace) > 0)\n"
    )
    # Isolated: neither the current folder nor PYTHONPATH leads to the repository.
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    files, worked = done.stdout.splitlines()
    assert all(name.startswith(str(tmp_path)) for name in files.split()) and worked == "True"


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.\w+)?", sl.__version__)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert not re.search(r"^version:", citation, re.MULTILINE)


def test_the_table_of_versions_is_that_of_the_project() -> None:
    """Exact versions are in it, each version in it is the lowest or only one, and extras exist."""
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    packages, _, extras = page.partition("Extras are named by need")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| ([\w.]+)", packages, re.MULTILINE))
    required = dict(
        re.split(r"[=>]=", one.partition(",")[0], maxsplit=1) for one in PROJECT["dependencies"]
    )
    exact = {one.partition("==")[0] for one in PROJECT["dependencies"] if "==" in one}
    assert exact <= set(rows)
    assert rows == {name: required[name].removesuffix(".0") for name in rows}
    named = set(re.findall(r"^\| `(\w+)` \|", extras, re.MULTILINE))
    assert {"torch", "onnx", "rpc", "hosts"} <= named <= set(PROJECT["optional-dependencies"])
    assert f"Python | {PROJECT['requires-python'].removeprefix('>=')} or newer" in page
