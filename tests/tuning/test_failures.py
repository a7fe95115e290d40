"""Runs on spaces that are wrong in part, wrong altogether, or not applicable."""

from __future__ import annotations

import traceback
from collections import Counter

import pytest

import schedlang as sl
from schedlang.database import Record

WRONG = {"float16", "beyond the end"}


@sl.module
def careless(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Three ways, of which two give wrong numbers."""
    _, j, k = sch.get_loops(block)
    way = sch.choose("way", ("exact", "float16", "beyond the end"))
    if way == "float16":
        lossy(sch, block)
    elif way == "beyond the end":  # adds up to 90 products where there are 64
        sch.split(k, [None, 30], disable_predication=True)
    sch.split(j, sch.sample_perfect_tile(j, n=2, name="tile of j"))


@sl.module
def lossy(sch: sl.Schedule, block: sl.BlockRV) -> None:
    sch.cache_write(block, 0, "global")
    sch.set_dtype(block, 0, "float16")
    i = sch.get_loops(block)[0]
    sch.split(i, sch.sample_perfect_tile(i, n=2, name="tile"))


@sl.module
def hopeless(sch: sl.Schedule, block: sl.BlockRV) -> None:
    i, j, _ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, n=2, name="tile"))
    sch.reorder(j, j)


@sl.module
def never(sch: sl.Schedule, block: sl.BlockRV) -> None:
    sch.parallel(sch.get_loops(block)[0])  # undone
    raise sl.NotApplicable("on principle")


@sl.module
def mistaken(sch: sl.Schedule, block: sl.BlockRV) -> None:
    loops = sch.get_loops(block)
    sch.parallel(loops[3])  # there are three


@pytest.fixture(scope="module")
def workload() -> sl.Workload:
    return sl.workloads.matmul(64, 64, 64)


@pytest.fixture(scope="module")
def mixed(workload: sl.Workload) -> sl.TuneResult:
    return sl.tune(workload, space=careless, trials=12, verify="all", finals=0)


def way_of(record: Record) -> str:
    return str(sl.Trace.from_json(record.trace_json).choices["way"])


def test_wrong_numbers_are_a_status(mixed: sl.TuneResult) -> None:
    ways = Counter(map(way_of, mixed.records))
    assert ways.keys() == {"exact", *WRONG}
    for record in mixed.records:
        if way_of(record) == "exact":
            assert record.ok and record.verified
        elif record.status is sl.Status.CRASHED:
            # What lies behind a tensor cannot be read, where the system allows that.
            assert way_of(record) == "beyond the end" and "outside its memory" in record.message
        else:
            assert record.status is sl.Status.WRONG_RESULT
            assert "elements differ; at [" in record.message and not record.verified
    failed = mixed.rejected["wrong_result"] + mixed.rejected["crashed"]
    assert failed == ways.total() - ways["exact"] and mixed.rejected["wrong_result"] > 0


def test_wrong_numbers_never_win(mixed: sl.TuneResult) -> None:
    assert mixed.best.record.verified
    assert mixed.best.unscheduled or way_of(mixed.best.record) == "exact"
    text = str(mixed)
    assert f"{mixed.rejected['wrong_result']} wrong_result" in text
    last = [record for record in mixed.records if not record.ok][-1]
    assert f"the last message: {last.message}" in text  # wrong numbers, or what lies behind them


def test_only_wrong_numbers_leave_the_program_as_it_is(workload: sl.Workload) -> None:
    result = sl.tune(workload, space=lossy, trials=2)
    assert result.best.unscheduled and result.best.schedule.mod == workload.mod
    assert result.best.record == result.unscheduled and result.speedup == 1
    text = str(result)
    assert text.startswith(
        "matmul: 2 measured; rejected: 2 wrong_result; the last message: output 0 (float32): "
    )
    assert "  best        keep the program as it is: no candidate succeeded\n" in text
    assert text.endswith("  ended       2 trials")


def test_no_valid_program_says_why(workload: sl.Workload) -> None:
    result = sl.tune(workload, space=hopeless, trials=4)
    assert list(result.records) == []
    assert result.rejected == {"instruction": 200}
    assert result.culprits == [("hopeless: reorder at block C", 200)]
    assert result.finished.startswith("no valid program in 200 draws; the last one: reorder(loops=")
    assert "mostly by hopeless: reorder at block C in " in str(result)
    assert result.best.unscheduled and "Loop j appears" in str(result)
    assert str(result).startswith(
        "matmul: 0 measured; rejected: 200 instruction; mostly by hopeless"
    )


def test_where_nothing_applies_the_unscheduled_program_is_measured(workload: sl.Workload) -> None:
    result = sl.tune(workload, space=never, trials=4, finals=0, search="random")
    [record] = result.records
    assert record.verified and len(result.best.trace) == 0
    assert result.best.schedule.mod == workload.mod
    assert result.finished == (
        "the only program proposed; "
        "no module did anything: never at C: does not apply, on principle"
    )


def test_a_mistake_in_a_module_shows_its_own_line(workload: sl.Workload) -> None:
    with pytest.raises(IndexError) as info:
        sl.tune(workload, space=mistaken, trials=1)
    [note] = info.value.__notes__
    line = mistaken.function.__code__.co_firstlineno + 3
    assert note == f"in module mistaken at block C, line {__file__}:{line}"
    last = traceback.extract_tb(info.tb)[-1]
    assert last.filename == __file__
    assert last.line == "sch.parallel(loops[3])  # there are three"
