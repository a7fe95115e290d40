"""The unscheduled program is a contender: a run, a look-up and a module never get slower."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang.database import Database, merge, prune, summary
from schedlang.database.programs import Unreadable
from schedlang.errors import SchedlangError
from schedlang.metaschedule import as_tvm_database, export_json
from schedlang.search.cost_model import pretrain
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.kernels.rungs import Rungs
from schedlang.tuning.kernels.warm_start import suggestions
from schedlang.tvm.program import structurally_equal
from tests.database.plausible import make_record
from tests.tuning.scripted import Scripted

WORKLOAD = small_workload()
SLOWER = (3e-5, 4e-5, 5e-5)
FASTER = (1e-6, 4e-5, 5e-5)
REFERENCE = 1e-5


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as made:
        yield made


def tune(measurer: Any, database: Any = None, **given: Any) -> sl.TuneResult:
    arguments: dict[str, Any] = {
        "trials": len(measurer.latencies),
        "space": ORDINARY,
        "search": "random",
    } | given
    return sl.tune(WORKLOAD, measurer=measurer, database=database, progress=False, **arguments)


def lines(result: sl.TuneResult) -> dict[str, str]:
    """The lines of its text by their first word."""
    words = (line.split(maxsplit=1) for line in str(result).splitlines())
    return {first: rest for first, rest in words}


@pytest.mark.parametrize("finals", [0, 5])
def test_no_faster_candidate_leaves_the_program_as_it_is(finals: int, tmp_path: Path) -> None:
    result = tune(Scripted(SLOWER, REFERENCE), finals=finals)
    best = result.best
    assert best.unscheduled and len(best.trace) == 0 and best.record == result.unscheduled
    assert (best.latency, result.speedup) == (REFERENCE, 1.0)
    assert len(result.records) == 3 and result.unscheduled not in result.records
    assert best.schedule.mod == WORKLOAD.mod
    assert lines(result)["best"] == "keep the program as it is: no candidate is faster"
    assert "x faster" not in str(result)
    scope: dict[str, Any] = {}
    exec(best.trace.as_python(), scope)
    assert structurally_equal(scope["sch"].mod, WORKLOAD.mod)
    exec(best.trace.as_tvm_python(), scope)
    assert structurally_equal(scope["sch"].mod, WORKLOAD.mod)
    n = WORKLOAD.args[0].shape[0]
    a, b = np.random.default_rng(0).random((2, n, n), np.float32)
    out = np.empty((n, n), np.float32)
    best.build()(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4)
    assert best.export_library(tmp_path / "kept.so").exists()


def test_its_record_says_what_it_is(database: Database) -> None:
    result = tune(Scripted(SLOWER, REFERENCE), database)
    [record] = [one for one in database.query() if one.unscheduled]
    assert record == result.unscheduled
    assert (record.search, record.seed, record.proposal) == ("unscheduled", None, None)
    assert record.verified and record.samples == (REFERENCE,)
    assert record.program_key == WORKLOAD.key and record.run_id == result.records[0].run_id
    [found] = summary(database)
    assert (found.trials, found.best) == (3, REFERENCE)


def test_a_look_up_finds_it_and_a_module_keeps_it(database: Database) -> None:
    tune(Scripted(SLOWER, REFERENCE), database)
    found = sl.best(WORKLOAD, "cpu", database)
    assert found is not None and found.unscheduled and found.kind == "same"
    assert found.latency == REFERENCE
    assert str(found).endswith("; keep the program as it is: no candidate is faster")
    assert structurally_equal(found.mod, WORKLOAD.mod)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sl.apply(WORKLOAD.mod, database, strict=True)["main"] == WORKLOAD.mod["main"]


def test_a_faster_candidate_is_found_in_its_place(database: Database) -> None:
    result = tune(Scripted(FASTER, REFERENCE), database)
    assert result.best.record.latency == pytest.approx(1e-6, rel=0.01)
    assert lines(result)["best"].endswith("10.0x faster, verified")
    found = sl.best(WORKLOAD, "cpu", database)
    assert found is not None and not found.unscheduled and found.record == result.best.record


def test_all_candidates_that_fail_leave_the_program_as_it_is(database: Database) -> None:
    result = tune(Scripted([None] * 3, REFERENCE), database)
    assert result.best.unscheduled and result.rejected == {"crashed": 3}
    assert lines(result)["best"] == "keep the program as it is: no candidate succeeded"
    assert "rejected: 3 crashed; the last message: it crashed" in str(result)
    found = sl.best(WORKLOAD, "cpu", database)
    assert found is not None and found.unscheduled


def test_without_its_latency_the_error_says_why_nothing_succeeded(database: Database) -> None:
    result = tune(Scripted([None] * 3, math.nan), database)
    assert result.unscheduled is None and database.count() == 3
    with pytest.raises(SchedlangError, match="no candidate of matmul succeeded: .*3 crashed"):
        _ = result.best


def test_one_that_is_near_takes_part_in_the_finals() -> None:
    measurer = Scripted((1e-5, 1.05e-5, 9e-5), 1.2e-5, {-1: 0.9e-5, 0: 1e-5, 1: 1.05e-5})
    result = tune(measurer)
    assert measurer.finalists == [[0, 1, -1]]
    assert result.best.unscheduled and result.best.finals is not None
    assert result.best.latency == result.reference_latency == pytest.approx(0.9e-5, rel=0.01)
    assert result.best.runner_up in result.records


def test_one_that_is_far_slower_does_not() -> None:
    measurer = Scripted((1e-5, 1.05e-5, 9e-5), 1e-3)
    result = tune(measurer)
    assert measurer.finalists == [[0, 1]] and not result.best.unscheduled
    assert result.speedup == pytest.approx(100, rel=0.01)


def test_a_tie_keeps_the_program() -> None:
    measurer = Scripted((1e-5, 1.05e-5), 1.01e-5, {-1: 1.001e-5, 0: 1e-5, 1: 1.05e-5})
    assert tune(measurer).best.unscheduled
    measurer = Scripted((1e-5, 1.05e-5), 1.01e-5, {-1: 1.05e-5, 0: 1e-5, 1: 1.05e-5})
    assert not tune(measurer).best.unscheduled


def test_a_machine_that_has_become_slow_is_no_reason_to_print_a_slowdown() -> None:
    """In the finals the winner takes longer than the unscheduled program took before."""
    measurer = Scripted((1e-5, 1.05e-5), 1.6e-5, {-1: 2.5e-5, 0: 2e-5, 1: 2.1e-5})
    result = tune(measurer)
    assert measurer.finalists == [[0, 1], [-1, 0, 1]]
    assert not result.best.unscheduled and result.speedup == pytest.approx(1.25, rel=0.01)
    measurer = Scripted((1e-5, 1.05e-5), 1.6e-5, {-1: 1.6e-5, 0: 2e-5, 1: 2.1e-5})
    assert tune(measurer).best.unscheduled


def test_a_candidate_that_is_the_same_program_counts_once() -> None:
    @sl.module
    def never(sch: sl.Schedule, block: sl.BlockRV) -> None:
        raise sl.NotApplicable("on principle")

    measurer = Scripted((0.9e-5,), REFERENCE)
    result = tune(measurer, space=never)
    assert result.best.unscheduled and measurer.finalists == []
    assert result.best.record == result.records[0], "it was measured better as a candidate"
    assert result.speedup == 1


def test_a_bound_cannot_win_and_is_printed_as_one(database: Database) -> None:
    measurer = Scripted(FASTER, REFERENCE, complete=False)
    result = tune(measurer, database)
    assert not result.reference_complete and result.unscheduled is None
    assert not any(record.unscheduled for record in database.query())
    assert lines(result)["unscheduled"] == ">= 10 us"
    assert lines(result)["best"].endswith(">= 10.0x faster, verified")
    assert not tune(measurer, database).reference_complete
    slow = tune(Scripted(SLOWER, REFERENCE, complete=False))
    assert not slow.best.unscheduled and "faster" not in str(slow)


@pytest.mark.parametrize("latencies", [SLOWER, FASTER])
def test_a_run_that_goes_on_or_has_ended_stores_it_once(
    latencies: tuple[float, ...], database: Database
) -> None:
    expected = tune(Scripted(latencies, REFERENCE))
    with pytest.warns(sl.InterruptedWarning):
        cut_off = tune(Scripted(latencies, REFERENCE, interrupted_at=2), database, batch=2)
    assert cut_off.best.trace == expected.best.trace
    assert [one.unscheduled for one in database.query()] == [False, False, True]
    second = Scripted(latencies, 7e-5)
    result = tune(second, database, batch=2)
    again = tune(Scripted(latencies, 8e-5), database, batch=2)
    assert second.references == 0, "it is in the database"
    assert result.earlier == 2 and again.earlier == 3 and len(database.runs()) == 1
    assert sum(one.unscheduled for one in database.query()) == 1
    for one in (result, again):
        assert one.best.trace == expected.best.trace
        assert one.reference_latency == REFERENCE
        assert one.unscheduled == result.unscheduled
    assert lines(again)["best"] == lines(result)["best"]
    assert again.best.finals == result.best.finals
    # Another run of the workload does not measure it again.
    other = Scripted(latencies, 9e-5)
    assert tune(other, database, seed=1).unscheduled == result.unscheduled
    assert other.references == 0


def test_no_search_starts_from_it_and_no_model_learns_it(database: Database) -> None:
    class Model:
        trained = False

        def update(self, examples: list[Any]) -> None:
            self.examples = examples

    tune(Scripted(SLOWER, REFERENCE), database)
    given = suggestions(database, WORKLOAD, sl.Target("cpu").key)
    assert len(given) == 2 and not any(record.unscheduled for record in given)
    model = Model()
    assert pretrain(model, database).learned == len(model.examples) == 3  # type: ignore[arg-type]


def test_a_schedule_that_is_slower_than_none_is_not_tried_on_similar_programs(
    database: Database,
) -> None:
    def product(*, subtract: bool) -> sl.Workload:
        a, b, d = (te.placeholder((32, 32), name=name) for name in "ABD")
        k = te.reduce_axis((0, 32), name="k")
        c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        e = te.compute(
            (32, 32), lambda i, j: c[i, j] - d[i, j] if subtract else c[i, j] + d[i, j], name="E"
        )
        return sl.workloads.from_te([a, b, d, e])

    one, other = product(subtract=False), product(subtract=True)
    for latencies, tried in ((SLOWER, 0), (FASTER, 1)):
        sl.tune(
            *(one, "cpu"),
            trials=3,
            search="random",
            database=database,
            measurer=Scripted(latencies, REFERENCE),
            remeasure=True,
        )
        given = Rungs(database, sl.Target("cpu"), Unreadable()).nearest(other)
        assert len(given) == tried


def test_it_goes_where_its_run_goes(database: Database) -> None:
    tune(Scripted(SLOWER, REFERENCE), database)
    with Database() as copy:
        merge(database, copy)
        copied = Scripted(SLOWER, 7e-5)
        assert tune(copied, copy).best.unscheduled and copied.references == 0
        assert merge(database, copy).records == 0
        prune(copy, keep_best=1)
        assert [record.unscheduled for record in copy.query()] == [True]
        assert copy.runs() == []


def test_without_it_an_old_database_answers_as_before(database: Database) -> None:
    result = tune(Scripted(SLOWER, REFERENCE), database)
    assert result.unscheduled is not None and result.unscheduled.id is not None
    database.delete([result.unscheduled.id])
    found = sl.best(WORKLOAD, "cpu", database)
    assert found is not None and found.latency == pytest.approx(3e-5, rel=0.01)


def test_tvm_keeps_the_program_too(database: Database, tmp_path: Path) -> None:
    result = tune(Scripted(SLOWER, REFERENCE), database)
    view = as_tvm_database(database)
    assert view.query_tuning_record(WORKLOAD.mod, None, "main") is not None
    assert view.used["main"] == result.unscheduled
    exported = export_json(database, tmp_path)
    assert exported.records == 4 and not exported.unexpressed


def test_a_record_of_a_search_is_not_taken_for_it() -> None:
    assert not make_record().unscheduled
