"""Databases that earlier versions of the library wrote, on a target that is the same everywhere.

``assets/schema_2.db`` was made by version 0.1.0 in its flat layout: ``tune`` of two workloads with
the measurer below. ``schema_3.db`` to ``schema_5.db`` were made by the last version that wrote each
schema: ``tune`` of a matmul, interrupted after 20 of 48 trials.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.modules import parallel_vectorize_unroll
from schedlang.tvm.program import structural_key

ASSETS = Path(__file__).parent / "assets"
RUNS = [
    (sl.workloads.matmul(64, 64, 64), "auto", "e2e3595f8af42c6a"),
    (sl.workloads.softmax(32, 48), "evolutionary", "64b2d1c806c839a6"),
]


class Hashed:
    """Latencies that depend on the program's text alone; keeps which programs it measured."""

    key = "hashed"
    seconds: dict[str, float] = {}
    best_so_far = None
    reference_latency = 1e-3

    def __init__(self) -> None:
        self.measured: set[str] = set()

    def _latency(self, candidate: sl.Candidate) -> float:
        digest = hashlib.sha256(candidate.module.script().encode()).digest()
        return 1e-5 + int.from_bytes(digest[:4], "big") / 2**32 * 1e-4

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for candidate in candidates:
            self.measured.add(structural_key(candidate.module))
            latency = self._latency(candidate)
            samples = (latency, latency * 1.01, latency * 1.02)
            yield sl.Measurement(candidate.id, sl.Status.OK, samples, verified=True)

    def remeasure(
        self, candidates: Sequence[sl.Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[sl.Measurement]:
        found = []
        for candidate in candidates:
            samples = tuple(self._latency(candidate) * (1 + 0.001 * k) for k in range(8))
            found.append(sl.Measurement(candidate.id, sl.Status.OK, samples, verified=True))
        return found

    def close(self) -> None:
        """Nothing to stop."""


@pytest.fixture
def target() -> sl.Target:
    return sl.Target("cpu", cores=2, mcpu="x86-64-v3", triple="x86_64-unknown-linux-gnu")


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # Latencies compare between equal versions only, and the file is of this one.
    monkeypatch.setattr("schedlang.targets.target.schedlang_version", lambda: "0.1.0")
    return str(shutil.copy(ASSETS / "schema_2.db", tmp_path))


@pytest.mark.parametrize(("workload", "search", "program_key"), RUNS, ids=["matmul", "softmax"])
def test_the_best_record_is_the_one_that_it_was(
    workload: sl.Workload, search: str, program_key: str, database: str, target: sl.Target
) -> None:
    found = sl.best(workload, target, database)
    assert found is not None
    assert (found.kind, found.record.program_key) == ("same", program_key)


@pytest.mark.parametrize("transfer", [True, False])
@pytest.mark.parametrize(("workload", "search", "program_key"), RUNS, ids=["matmul", "softmax"])
def test_the_same_call_measures_no_program_again(
    workload: sl.Workload,
    search: str,
    program_key: str,
    transfer: bool,
    database: str,
    target: sl.Target,
) -> None:
    """A run that starts from the old records proposes other programs; without them, the same.

    The default space of a program as small as this softmax has had one draw more since; descents
    draw starts by the target's estimate since, so that after the origin the others differ.
    """
    finish = parallel_vectorize_unroll(cores=2, max_lanes=32, prob=0.95)
    space = sl.default_space(target).replace("parallel_vectorize_unroll", finish)
    with sl.open_database(database) as opened:
        before = {record.program_key for record in opened.query(workload.key)}
    measurer = Hashed()
    result = sl.tune(
        workload,
        target,
        space=space if search == "evolutionary" else None,
        trials=12,
        seed=3,
        search=search,
        database=database,
        measurer=measurer,
        transfer=transfer,
    )
    assert not measurer.measured & before
    assert len(measurer.measured) == 12 - result.earlier
    if not transfer:
        found = {record.program_key for record in result.records}
        assert found == before if search == "evolutionary" else found & before


@pytest.mark.slow
@pytest.mark.parametrize("schema", [3, 4, 5])
def test_an_interrupted_run_of_an_older_schema_measures_the_rest(
    schema: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: sl.Target
) -> None:
    monkeypatch.setattr("schedlang.targets.target.schedlang_version", lambda: "0.1.0")
    path = shutil.copy(ASSETS / f"schema_{schema}.db", tmp_path)
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (schema,)
    raw.close()
    workload = sl.workloads.matmul(64, 64, 64)
    with sl.open_database(path, read_only=True) as reader:
        records = reader.query()
        (run,) = reader.runs()
        assert (len(records), run.search, run.outcome) == (21, "random", "")
        assert reader.best(workload.key, target.key, n=1)[0].latency < 2e-5
    measurer = Hashed()
    call = {"trials": 48, "batch": 8, "seed": 3, "search": "random", "progress": False}
    result = sl.tune(workload, target, database=path, measurer=measurer, **call)
    assert not measurer.measured & {record.program_key for record in records}
    assert len(measurer.measured) == 28 and len(result.records) == 48
    with sl.open_database(path) as database:
        assert database.query()[:21] == records
        assert database.count() == 21 + 28
