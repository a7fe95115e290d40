"""``benchmarks/streams.py``: the same in each process, and another where the engine is another."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import streams
from _stream_measurers import RecordedMeasurer

import schedlang as sl
from schedlang.database import Database
from schedlang.measurement import Candidate

CALLS = (
    "tune continued in memory: epyc-zen4-2-cores/SFM.space random",
    "network two, no transfer",
    "shapes points, random",
    "survey part, seconds",
)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the benchmark here on a few calls; return its exit code."""
    given = ["streams.py", "--jobs", "1", "--only", *CALLS, *words]
    monkeypatch.setattr(sys, "argv", given)
    with pytest.raises(SystemExit) as ended:
        streams.main()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("streams") / "before.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert run(monkeypatch, "--json", str(file)) == 0
    assert sorted(json.loads(file.read_text(encoding="utf-8"))["values"]) == sorted(CALLS)
    return file


def other_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates of a batch are measured in another order."""
    measure = RecordedMeasurer.measure

    def backwards(
        self: RecordedMeasurer, candidates: Sequence[Candidate]
    ) -> Iterator[sl.Measurement]:
        return measure(self, candidates[::-1])

    monkeypatch.setattr(RecordedMeasurer, "measure", backwards)


def other_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches have another seed."""
    for name in ("tune", "tune_network", "tune_shapes", "survey"):
        call = getattr(sl, name)

        def seeded(*given: Any, seed: int, call: Any = call, **options: Any) -> Any:
            return call(*given, seed=seed + 1, **options)

        monkeypatch.setattr(sl, name, seeded)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call continues a run."""
    monkeypatch.setattr(Database, "find_run", lambda self, identity: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "seen"),
    [(other_order, CALLS), (other_seed, CALLS), (forgetful, CALLS[:1])],
)
def test_another_engine_is_seen(
    before: Path,
    change: Callable[[pytest.MonkeyPatch], None],
    seen: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(monkeypatch)
    assert run(monkeypatch, "--against", str(before)) == 1
    said = capsys.readouterr().out
    assert [f"differs: {name}" in said for name in seen] == [True] * len(seen), said


@pytest.mark.slow
def test_a_call_that_is_continued_measures_what_one_call_does() -> None:
    given = argparse.Namespace(what=("tune", "network"), spaces=[])
    calls = dict(itertools.chain.from_iterable(part.items() for part in streams.parts(given)))
    for name in (CALLS[0], "network two, continued"):
        lines = list(calls[name]())
        assert "as one call" in lines and "another stream than that of one call" not in lines


@pytest.mark.slow
def test_all_processes_find_the_same(tmp_path: Path) -> None:
    file = str(tmp_path / "streams.json")
    for number, words in enumerate((("--json", file), ("--against", file))):
        done = subprocess.run(
            [sys.executable, streams.__file__, "--quick", *words],
            env={**os.environ, "PYTHONHASHSEED": str(number + 1)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "39 of 39 are as before" in done.stdout
