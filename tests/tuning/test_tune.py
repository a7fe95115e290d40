"""A tuning run with real measurements: its result, its records, its database."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tvm

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.search import Random
from schedlang.tvm.program import from_json, structural_key, structurally_equal

# So large that any schedule beats none, whatever else the machine does.
N = 128
TRIALS = 12


@pytest.fixture(scope="module")
def workload() -> sl.Workload:
    return sl.workloads.matmul(N, N, N)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuned") / "records.db"


@pytest.fixture(scope="module")
def result(workload: sl.Workload, path: Path) -> sl.TuneResult:
    """A run with everything at its default but the database."""
    return sl.tune(workload, trials=TRIALS, seed=3, database=path, search="evolutionary")


def matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, N, N), dtype=np.float32)
    return a, b, np.full((N, N), np.nan, np.float32)


def fastest(result: sl.TuneResult) -> Record:
    return min((record for record in result.records if record.ok), key=lambda r: r.latency)


# -- the result ----------------------------------------------------------------------------------


def test_best_is_a_verified_record(result: sl.TuneResult, workload: sl.Workload) -> None:
    best = result.best
    assert best.record in result.records
    assert best.record.verified and best.latency > 0
    assert sl.Trace.from_json(best.record.trace_json) == best.trace
    assert math.isfinite(best.trace.log_prob())
    assert best.schedule.trace == best.trace
    assert best.schedule.workload == workload
    assert result.speedup == result.reference_latency / best.latency


def test_best_builds_into_a_callable(result: sl.TuneResult) -> None:
    a, b, c = matrices()
    result.best.build()(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "gcc", "clang", "cc"))), reason="no C compiler to link with"
)
def test_best_is_exported_as_a_library(result: sl.TuneResult, tmp_path: Path) -> None:
    file = result.best.export_library(tmp_path / "matmul.so")
    assert file == tmp_path / "matmul.so"
    a, b, c = (tvm.runtime.tensor(matrix) for matrix in matrices())
    tvm.runtime.load_module(str(file))["main"](a, b, c)
    np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-5)


def test_the_result_reads_well(result: sl.TuneResult) -> None:
    first, unscheduled, best, *_ = str(result).splitlines()
    assert first.startswith(f"matmul: {TRIALS} measured") and first.endswith(" s")
    assert unscheduled.startswith("  unscheduled ") and unscheduled.endswith(" GFLOPS")
    assert best.startswith("  best ") and best.endswith("x faster, verified")
    assert result.finished == f"{TRIALS} trials"
    assert result.seconds > 0


def test_records_say_what_was_measured(result: sl.TuneResult, workload: sl.Workload) -> None:
    assert len(result.records) == TRIALS
    assert len({record.trace_json for record in result.records}) == TRIALS
    for record in result.records:
        assert record.workload_key == workload.key
        assert record.workload_name == "matmul"
        assert record.target_key == sl.Target("cpu").key
        assert (record.search, record.seed) == ("evolutionary", 3)
        assert record.ok == bool(record.samples) == (not record.message)
    assert [r.created for r in result.records] == sorted(r.created for r in result.records)


def test_rejections_are_counted(result: sl.TuneResult, workload: sl.Workload) -> None:
    strategy = Random(sl.default_space(), workload, seed=3)
    strategy.ask(TRIALS)
    failed = Counter(str(r.status) for r in result.records if not r.ok)
    assert result.rejected == failed + Counter(r.reason for r in strategy.rejections)


def test_a_seed_means_the_same_traces(result: sl.TuneResult, workload: sl.Workload) -> None:
    measured = {record.trace_json for record in result.records}
    for seed, same in ((3, True), (4, False)):
        proposals = Random(sl.default_space(), workload, seed).ask(TRIALS)
        assert (measured == {p.trace.to_json() for p in proposals}) is same


# -- the database --------------------------------------------------------------------------------


def test_a_path_holds_records_that_replay(
    result: sl.TuneResult, path: Path, workload: sl.Workload
) -> None:
    with sl.open_database(path, read_only=True) as database:
        assert [one for one in database.query() if not one.unscheduled] == result.records
        [best] = database.best(workload.key, sl.Target("cpu").key)
        assert best == fastest(result)
        stored = database.get_workload(workload.key)
    assert stored is not None
    again = sl.workloads.from_module(from_json(stored))
    assert again == workload
    programs = set()
    for record in result.records:
        schedule = sl.Trace.from_json(record.trace_json).replay(again)
        assert schedule.trace.to_json() == record.trace_json
        programs.add(structural_key(schedule.mod))
    assert len(programs) == TRIALS
    replayed = sl.Trace.from_json(result.best.record.trace_json).replay(again)
    assert structurally_equal(replayed.mod, result.best.schedule.mod)


def test_a_second_run_adds_to_the_file(
    result: sl.TuneResult, path: Path, workload: sl.Workload, tmp_path: Path
) -> None:
    """It starts from the fastest that the file has; without finals the fastest record is the best.

    That one is measured again where a busy machine left its latency uncertain.
    """
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    first = fastest(result)
    second = sl.tune(workload, trials=8, seed=5, database=str(copy), finals=0)
    known, new = second.records[: second.earlier], second.records[second.earlier :]
    [again] = [one for one in second.records if one.program_key == first.program_key]
    assert (again == first) is first.certain
    assert set(known) <= set(result.records) and all(one.certain for one in known)
    assert second.best.record is fastest(second)
    assert second.best.latency == second.best.record.latency
    with sl.open_database(copy) as database:
        stored = [record for record in database.query() if not record.unscheduled]
        assert stored == [*result.records, *new]
        assert second.unscheduled == result.unscheduled, "it is not measured twice"
        assert database.workloads() == [(workload.key, "matmul")]


def test_a_database_of_ones_own_stays_open(
    workload: sl.Workload, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database() as database:
        result = sl.tune(workload, trials=2, database=database, finals=0, progress=True)
        assert [one for one in database.query() if one != result.unscheduled] == result.records
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "tuning matmul" in shown.err and "2/2" in shown.err and "GFLOPS" in shown.err


def test_a_run_says_when_no_module_did_anything(workload: sl.Workload) -> None:
    @sl.module
    def for_vectors(sch: sl.Schedule, block: sl.BlockRV) -> None:
        raise sl.NotApplicable(f"it has {len(sch.get_loops(block))} loops, not 1")

    found = sl.tune(workload, space=for_vectors, trials=4, finals=0)
    assert len(found.records) == 1
    said = "; no module did anything: for_vectors at C: does not apply, it has 3 loops, not 1"
    assert found.finished.endswith(said)
    assert said in str(found)
    some = sl.tune(workload, space=note_one, trials=4, finals=0)
    assert len(some.records) == 1 and "no module" not in some.finished


@sl.module
def note_one(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """The same program each time."""
    sch.annotate(block, "one", 1)
