"""Which instruction is at fault, of real programs and of measurements that the test writes down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database import Record
from schedlang.instructions.instruction import KINDS
from schedlang.tuning import read_result
from tests.cli.calling import document
from tests.tuning.scripted import Scripted, measured

WORKLOAD = sl.workloads.matmul(16, 16, 16)


@sl.instruction
def rounds_on_the_way(sch: sl.Schedule, block: sl.BlockRV) -> None:
    sch.split(sch.get_loops(block)[0], [None, 4])
    sch.cache_write(block, 0, "global")
    sch.set_dtype(block, 0, "float16")
    sch.annotate(block, "mine", 1)


@sl.module
def careless(sch: sl.Schedule, block: sl.BlockRV) -> None:
    i, j, _ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, n=2, name="rows"))
    way = sch.choose("way", ("exact", "primitive", "written in Python"))
    if way == "primitive":
        sch.cache_write(block, 0, "global")
        sch.set_dtype(block, 0, "float16")
    elif way == "written in Python":
        rounds_on_the_way(sch, block)
    sch.split(j, sch.sample_perfect_tile(j, n=2, name="columns"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failures") / "tune.db"


@pytest.fixture(scope="module")
def result(file: Path) -> sl.TuneResult:
    return sl.tune(
        WORKLOAD, space=careless, trials=12, search="grid", verify="all", finals=0, database=file
    )


def wrong_by(result: sl.TuneResult, way: str) -> Record:
    """A record with wrong numbers."""
    return next(
        one
        for one in result.records
        if one.status is sl.Status.WRONG_RESULT
        and sl.Trace.from_json(one.trace_json).choices["way"] == way
    )


@pytest.mark.slow
def test_a_primitive_is_named_with_its_module_and_the_largest_error(
    result: sl.TuneResult,
) -> None:
    record = wrong_by(result, "primitive")
    found = sl.explain_failure(record)  # the result holds the program
    [suspect] = found.suspects
    trace = sl.Trace.from_json(record.trace_json)
    assert trace.instructions[suspect.number].kind.name == "set_dtype"
    assert found.instruction == suspect.number and found.first and not found.notes
    assert (suspect.module, suspect.block) == ("careless", "C")
    assert suspect.text == "sch.set_dtype(b0, buffer_index=0, dtype='float16')"
    assert suspect.text in str(trace) and suspect.text in str(found)
    assert "the largest error" in str(found) and found.status == "wrong_result"
    ends = {one.length: one.status for one in found.prefixes}
    assert ends[suspect.number + 1] == "wrong_result" and ends[suspect.number] == "ok"


def test_what_an_instruction_in_python_ran_is_told_apart(result: sl.TuneResult) -> None:
    [suspect] = sl.explain_failure(wrong_by(result, "written in Python")).suspects
    assert suspect.text == "rounds_on_the_way(sch, b0)"
    assert suspect.inside == ("sch.set_dtype(b0, buffer_index=0, dtype='float16')",)
    assert f"{Path(__file__).name}:" in suspect.defined_at


def test_the_run_says_it_of_its_first_wrong_result(result: sl.TuneResult, file: Path) -> None:
    first = next(one for one in result.records if one.status is sl.Status.WRONG_RESULT)
    assert result.at_fault.startswith(f"record {first.id}: numbers are wrong after ")
    assert "set_dtype" in result.at_fault and f"  wrong       {result.at_fault}" in str(result)
    assert read_result(file).at_fault == result.at_fault
    right = replace(result, records=[one for one in result.records if one.ok], at_fault="")
    assert "  wrong  " not in str(right)


@pytest.mark.slow
def test_a_database_is_enough_in_another_process(result: sl.TuneResult, file: Path) -> None:
    record = wrong_by(result, "primitive")
    words = [sys.executable, "-m", "schedlang", "explain", f"{file}@{record.id}", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["record"] == record.id and found["now"] == "wrong_result"
    [suspect] = found["suspects"]
    assert suspect["number"] == found["instruction"] and "set_dtype" in suspect["text"]
    assert {one["status"] for one in found["prefixes"]} == {"ok", "wrong_result"}


def test_the_command_line_runs_the_file_that_defines_an_instruction(
    tmp_path: Path, file: Path, result: sl.TuneResult
) -> None:
    source = tmp_path / "instructions_of_mine.py"
    source.write_text(
        "import schedlang as sl\n\n\n@sl.instruction\n"
        "def doubled_steps(sch: sl.Schedule, block: sl.BlockRV) -> None:\n"
        "    sch.set_dtype(sch.cache_write(block, 0, 'global'), 0, 'float16')\n"
    )
    trace = wrong_by(result, "written in Python").trace_json
    named = replace(
        wrong_by(result, "primitive"),
        trace_json=trace.replace("rounds_on_the_way", "unknown_to_all"),
        id=None,
    )
    with sl.open_database(file) as database:
        [stored] = database.append([named])
    words = ("explain", f"{file}@{stored.id}")
    said = document(*words, code=1)["error"]
    assert "unknown instruction 'unknown_to_all'" in said and "--define FILE.py" in said
    document(*words, "--define", source, code=1)
    assert "doubled_steps" in KINDS


class Written(sl.Measurer):
    """A program of so many instructions ends as the test says; the others are right."""

    def __init__(self, ends: Mapping[int, sl.Status]) -> None:
        self.ends = ends
        self.asked: list[int] = []

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for one in candidates:
            self.asked.append(one.id)
            status = self.ends.get(one.id, sl.Status.OK)
            samples = (1e-3,) if status is sl.Status.OK else ()
            yield sl.Measurement(one.id, status, samples, f"it is {status}", verified=True)


WRONG, UNBUILT, CRASHED = sl.Status.WRONG_RESULT, sl.Status.BUILD_ERROR, sl.Status.CRASHED


def failed(status: sl.Status, splits: int = 8) -> Record:
    """A record of a trace that looks up loops, and splits the first of them again and again."""
    sch = sl.Schedule(WORKLOAD)
    loop = sch.get_loops("C")[0]
    for _ in range(splits):
        loop = sch.split(loop, [None, 1])[0]
    return replace(
        sl.tune(WORKLOAD, trials=1, measurer=Scripted([None], 1e-3), finals=0).records[0],
        trace_json=sch.trace.to_json(),
        status=status,
    )


def test_programs_that_do_not_build_are_a_range_of_suspects() -> None:
    record = failed(WRONG)
    last = len(sl.Trace.from_json(record.trace_json))
    ends = {length: UNBUILT for length in (last - 4, last - 3)} | {
        length: WRONG for length in (last - 2, last - 1, last)
    }
    found = sl.explain_failure(record, workload=WORKLOAD, measurer=Written(ends))
    assert [one.number for one in found.suspects] == [last - 5, last - 4, last - 3]
    assert found.instruction is None
    assert "one of 3 instructions" in str(found) and "end as build_error" in str(found)
    assert f"between {found.suspects[0].text} and {found.suspects[-1].text}" in found.summary


def test_a_later_instruction_may_mend_what_the_first_one_did() -> None:
    record = failed(WRONG)
    last = len(sl.Trace.from_json(record.trace_json))
    measurer = Written({3: WRONG, last - 1: WRONG, last: WRONG})
    found = sl.explain_failure(record, workload=WORKLOAD, measurer=measurer)
    assert found.instruction == 2 and found.first
    assert len(measurer.asked) == len(set(measurer.asked)) + measurer.asked.count(last) - 1


def test_other_failures_are_found_by_how_far_programs_get() -> None:
    record = failed(UNBUILT)
    last = len(sl.Trace.from_json(record.trace_json))
    # One that crashes was built.
    ends = dict.fromkeys(range(6, last + 1), UNBUILT) | {5: CRASHED, 4: WRONG}
    found = sl.explain_failure(record, workload=WORKLOAD, measurer=Written(ends))
    assert found.instruction == 5 and "the program does not build after" in found.summary
    ends |= dict.fromkeys(range(6), UNBUILT)
    found = sl.explain_failure(record, workload=WORKLOAD, measurer=Written(ends))
    assert not found.suspects and "the unscheduled program fails the same way" in str(found)


def test_a_failure_that_does_not_show_again_is_not_blamed_on_anything() -> None:
    record = failed(CRASHED)
    measurer = Written({})
    found = sl.explain_failure(record, workload=WORKLOAD, measurer=measurer)
    assert not found.suspects and found.status == "ok" and "does not fail now" in str(found)
    assert len(measurer.asked) == 3


def test_a_trace_that_does_not_apply_needs_no_measurement() -> None:
    sch = sl.Schedule(WORKLOAD)
    sch.parallel(sch.split(sch.get_loops("C")[0], [4, None])[0])
    sch.compute_inline(sch.cache_read("C", 0, "global"))
    trace = sch.trace.to_json().replace(
        '"kind":"compute_inline"', '"kind":"reverse_compute_inline"'
    )
    assert trace != sch.trace.to_json()
    measurer = Written({})
    record = replace(failed(WRONG), trace_json=trace)
    found = sl.explain_failure(record, workload=WORKLOAD, measurer=measurer)
    assert found.status == "invalid" and not measurer.asked
    assert found.instruction == len(sch.trace) - 1
    assert "the trace does not apply after sch.reverse_compute_inline" in found.summary


def test_what_cannot_be_explained_says_why(result: sl.TuneResult, tmp_path: Path) -> None:
    fine = next(one for one in result.records if one.ok)
    bad = wrong_by(result, "primitive")
    with pytest.raises(sl.SchedlangError, match="is ok: nothing failed"):
        sl.explain_failure(fine)
    with pytest.raises(TypeError, match=r"takes a record, not TuneResult; give one of result\.r"):
        sl.explain_failure(result)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not int; database\.get"):
        sl.explain_failure(12)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is another program than that of record"):
        sl.explain_failure(bad, workload=sl.workloads.matmul(8, 8, 8))
    with pytest.raises(sl.SchedlangError, match="give database= that has it, or workload="):
        sl.explain_failure(replace(bad, workload_key="0" * 16))
    with sl.open_database(tmp_path / "other.db"):
        pass
    with pytest.raises(sl.SchedlangError, match="is not in the database"):
        sl.explain_failure(bad, tmp_path / "other.db")
    with pytest.raises(ValueError, match="seconds=0"):
        sl.explain_failure(bad, seconds=0)


def test_a_measurer_of_the_users_is_not_asked_for_more() -> None:
    class Wrong(Scripted):
        def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
            for one in candidates:
                yield replace(measured(one.id, None), status=WRONG)

    found = sl.tune(WORKLOAD, trials=2, measurer=Wrong([None], 1e-3), finals=0)
    assert not found.at_fault
    assert "sl.explain_failure(result.records[0]) says which instruction" in str(found)
