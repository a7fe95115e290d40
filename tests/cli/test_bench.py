"""``schedlang bench``: a suite is tuned, timed beside torch, and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import schedlang as sl
from schedlang.bench import torch_operators
from schedlang.bench.peers import EAGER, OURS
from tests.cli.calling import call, document

SUITE = """
name = "small"
trials = 2

[[kernel]]
name = "mm.s{n}"
workload = "matmul"
sizes = { n = [8, 16], m = 16, k = 16 }

[[kernel]]
name = "mine"
workload = "mine.py:twice"
sizes = { n = 8 }
torch = "a * 2"

[[kernel]]
name = "wrong"
workload = "mine.py:twice"
sizes = { n = 8 }
torch = "a * 3"

[[kernel]]
name = "alone"
workload = "mine.py:twice"
sizes = { n = 4 }

[[kernel]]
name = "broken"
workload = "mine.py:broken"
"""

MINE = """
from tvm import te

def twice(n):
    a = te.placeholder((n, 32), "float32", "a")
    return [a, te.compute((n, 32), lambda i, j: a[i, j] * 2.0, "b")]

def broken():
    raise KeyError("it is mine")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    file = tmp_path / "small.toml"
    file.write_text(SUITE, encoding="utf-8")
    return file


def words(suite: Path, *more: str | Path) -> tuple[str | Path, ...]:
    return ("bench", suite, "--no-compiled", "--rounds", "5", "--no-progress", *more)


@pytest.mark.slow
@pytest.mark.skipif(not torch_operators.available(), reason="torch is not installed")
def test_kernels_are_set_beside_torch_and_failures_are_rows(suite: Path) -> None:
    database = suite.with_name("suite.db")
    said = document(*words(suite, "--database", database), code=1)
    rows = {row["kernel"]: row for row in said["rows"]}
    assert list(rows) == ["mm.s8", "mm.s16", "mine", "wrong", "alone", "broken"]
    for name in ("mm.s8", "mm.s16", "mine"):
        row = rows[name]
        assert not row["failed"] and row["trials"] == 2
        assert set(row["latency"]) == {OURS, EAGER}
        assert row["ratio"][EAGER] == row["latency"][EAGER] / row["latency"][OURS]
        assert len(row["rounds"][OURS]) == 5 and 0 <= row["p_value"][EAGER] <= 1
    assert rows["mm.s8"]["slowest_call"].startswith("aten::")
    assert rows["mine"]["bytes"] == 2 * 8 * 32 * 4
    # One whose expression computes something else fails; it has our figures all the same.
    assert rows["wrong"]["failed"] == "torch" and "something else" in rows["wrong"]["error"]
    assert set(rows["wrong"]["latency"]) == {OURS}
    # One without an equivalent does not fail.
    assert not rows["alone"]["failed"] and "no operator" in rows["alone"]["missing"][EAGER]
    assert rows["broken"]["failed"] == "make" and "it is mine" in rows["broken"]["error"]
    assert said["figures"][EAGER]["kernels"] == 3 and said["figures"]["torch compiled"] is None
    with sl.open_database(database, read_only=True) as held:
        before = held.count()
        assert (
            held.get([rows["mm.s16"]["record"]])[0].workload_key == rows["mm.s16"]["workload_key"]
        )
        assert "mm.s16" in {name for _, name in held.workloads()}
    # The same call tunes nothing again, and times all kernels again.
    again = document(*words(suite, "--database", database, "--only", "mm.*"))
    assert [row["kernel"] for row in again["rows"]] == ["mm.s8", "mm.s16"]
    assert [row["record"] for row in again["rows"]] == [rows[one]["record"] for one in rows][:2]
    with sl.open_database(database, read_only=True) as held:
        assert held.count() == before


def test_without_torch_there_are_our_figures(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_operators, "torch", None)
    found = call(*words(suite, "--only", "mm.s8", "--trials", "1"))
    assert "torch is not installed: the table has the figures of schedlang alone" in found.stderr
    first, line, *_ = found.stdout.splitlines()
    assert "eager" not in first and line.startswith("mm.s8") and "1 trials" in line
    assert "small: 1 kernels in" in found.stdout and "geometric" not in found.stdout


def test_ctrl_c_keeps_the_rows_so_far(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune, calls = sl.tune, []

    def interrupted(workload: Any, *args: Any, **given: Any) -> Any:
        calls.append((workload.name, given["trials"]))
        if len(calls) == 2:
            return SimpleNamespace(interrupted=True)
        return tune(workload, *args, **given)

    monkeypatch.setattr(sl, "tune", interrupted)
    monkeypatch.setattr(torch_operators, "torch", None)
    said = document(*words(suite, "--trials", "1", "--database", suite.with_name("a.db")), code=130)
    assert said["interrupted"] and [row["kernel"] for row in said["rows"]] == ["mm.s8"]
    assert calls == [("mm.s8", 1), ("mm.s16", 1)]


def test_a_dry_run_measures_nothing(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sl, "tune", lambda *_, **__: pytest.fail("it tunes"))
    found = call("bench", suite, "--dry-run", code=1).stdout
    assert "small: 6 kernels, 1 failed" in found
    document = json.loads(call("bench", suite, "--dry-run", "--json", code=1).stdout)
    rows = {row["kernel"]: row for row in document["kernels"]}
    assert rows["mm.s16"]["flops"] == 2 * 16**3 and "it is mine" in rows["broken"]["error"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--only", "mm"), "--only mm names none of 6 kernels"),
        (("--trials", "0"), "--trials 0; give a whole number"),
        (("--target", "gpux"), "gpux"),
        (("--n", "4"), "no such option: --n"),
    ],
)
def test_wrong_calls(more: tuple[str, ...], said: str, suite: Path) -> None:
    assert said in " ".join(call("bench", suite, *more, code=2).stderr.lower().split())


@pytest.mark.slow
@pytest.mark.skipif(not torch_operators.available(), reason="torch is not installed")
def test_an_expression_of_torch_is_one_program(suite: Path) -> None:
    suite.write_text(
        """
        [[kernel]]
        name = "rms"
        torch = "F.rms_norm(x, (d,), w, eps=1e-6)"
        inputs = { x = [4, "d"], w = ["d"] }
        sizes = { d = 16 }
        """,
        encoding="utf-8",
    )
    [row] = document(*words(suite, "--trials", "1"))["rows"]
    assert not row["failed"] and set(row["latency"]) == {OURS, EAGER}
