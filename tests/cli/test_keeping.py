"""Verbs that change or convert a database: merge, prune, export, import."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from tests.cli.calling import SIZES, call, document
from tests.cli.conftest import Tuned


def test_merge_and_prune(tuned: Tuned, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    call("merge", tuned.file, "--into", copy)
    with sl.open_database(tuned.file) as one, sl.open_database(copy) as other:
        assert other.count() == one.count() > 3
    assert document("prune", copy, "--keep-best", "1", "--dry-run")["pruned"]["dry_run"]
    assert document("prune", copy, "--keep-best", "1", "--workload", "matmul")["pruned"]["records"]
    with sl.open_database(copy) as pruned:
        assert 1 <= pruned.count() <= 2
    assert "into itself" in call("merge", copy, "--into", copy, code=2).stderr
    assert "say what goes" in call("prune", copy, code=2).stderr


@pytest.mark.parametrize("more", [(), ("--c",)])
def test_a_library(tuned: Tuned, tmp_path: Path, more: tuple[str, ...]) -> None:
    library = tmp_path / "kernel.so"
    said = document("export", *SIZES, "--database", tuned.file, "--library", library, *more)
    assert library.with_suffix(".h").exists() == bool(more)
    assert "--c goes with --library" in call("export", *SIZES, "--c", code=2).stderr
    assert said["library"] == str(library)
    kernel = sl.load(library)
    a, b = np.eye(16, dtype="float32"), np.ones((16, 16), "float32")
    c = np.zeros((16, 16), "float32")
    kernel(a, b, c)
    assert (c == 1).all()


def test_metaschedule_and_back(tuned: Tuned, tmp_path: Path) -> None:
    folder, other = tmp_path / "ms", tmp_path / "imported.db"
    said = document("export", "--database", tuned.file, "--metaschedule", folder)
    assert said["records"] > 0
    assert document("import", folder, "--database", other)["records"] == said["records"]
    assert "no such file" in call("import", "nowhere", "--database", other, code=2).stderr
    assert "--metaschedule" in call("export", "--database", tuned.file, code=2).stderr
