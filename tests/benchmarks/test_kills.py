"""What ``benchmarks/kills.py`` counts, and the bound that it states."""

from __future__ import annotations

import os
import subprocess

import kills
import pytest
from kills import Kill, bound, summarise


def test_the_bound_is_the_exact_one() -> None:
    assert bound(0, 200) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert bound(0, 200) < 0.015 < bound(1, 200) < bound(199, 200) < bound(200, 200) == 1.0


def test_faults_are_counted() -> None:
    clean, bad = Kill(True, 1.0, 5, 0, 0, 0), Kill(False, 1.0, 0, 2, 1, 0)
    found = summarise([clean, clean, bad])
    assert (found["kills"], found["before_a_record"], found["reported"]) == (3, 1, 10)
    assert {name: (row["sum"], row["kills"]) for name, row in found["faults"].items()} == {
        "lost": (2, 1),
        "alive": (1, 1),
        "files": (0, 0),
    }


def test_a_process_that_survives_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "ALIVE_SECONDS", 0.1)
    environment = {**os.environ, kills.MARK: "here"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], env=environment, bufsize=0, **pipes) as child:
        try:
            # The system shows a process's environment a moment after Popen has returned.
            child.stdin.write(b"runs\n")
            assert child.stdout.readline() == b"runs\n"
            assert kills.survivors("here") == {child.pid}
            assert kills.survivors("elsewhere") == set()
        finally:
            child.kill()
    assert kills.survivors("here") == set()
