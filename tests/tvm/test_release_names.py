"""The table of TVM's names that differ between releases."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlang.tvm
from schedlang.tvm import release_names
from schedlang.tvm.release_names import NAMES, ReleaseName, moved

FOLDER = Path(schedlang.tvm.__file__).parent


def private_imports() -> Iterator[str]:
    """``module:name`` of every private name that a file of the folder imports from TVM."""
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tvm"):
                for alias in node.names:
                    if alias.name.startswith("_"):
                        yield f"{node.module}:{alias.name}"


def test_todays_tvm_has_all_names() -> None:
    assert moved() == []


def test_a_name_that_is_gone_is_found() -> None:
    for path in ("tvm.tir.schedule", "tvm.tirx:NoSuch", "tvm.runtime:Tensor.no", "ffi:no.such"):
        assert not ReleaseName(path, "", "").exists(), path


def test_a_name_that_needs_what_is_not_installed_has_not_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = ReleaseName("tvm.relax:gone", "", "", needs="no_such_package")
    monkeypatch.setattr(release_names, "NAMES", [gone])
    assert not gone.can_be_seen() and moved() == []
    found = ReleaseName("tvm.relax:gone", "", "", needs="numpy")
    monkeypatch.setattr(release_names, "NAMES", [found])
    assert found.can_be_seen() and moved() == [found]


def test_private_names_are_in_the_table() -> None:
    listed = {name.path for name in NAMES}
    assert set(private_imports()) <= listed


def test_the_places_use_them() -> None:
    for name in NAMES:
        place = FOLDER / name.used_in
        files = place.rglob("*.py") if place.is_dir() else [place]
        word = name.path.replace(":", ".").rsplit(".", 1)[-1]
        assert any(word in file.read_text() for file in files), name
