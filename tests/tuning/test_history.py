"""The history of a run: what is kept of it, in a database and without one."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import history, open_database
from schedlang.errors import InterruptedWarning, MissingExtraError, SchedlangError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.clock import Phase
from tests.tuning.scripted import Scripted, measured

LATENCIES = [3e-3, None, 1e-3, 2e-3]
BEGIN = 1.7e9


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV) -> None:
    for loop, name in zip(sch.get_loops(block), "ijk", strict=True):
        sch.split(loop, sch.sample_perfect_tile(loop, n=2, name=name))


@sl.module
def broken(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Half of its draws are refused."""
    if sch.choose("odd", (True, False)):
        sch.reorder(*[sch.get_loops(block)[0]] * 2)


class Timed(Scripted):
    """Tells when its two workers built and ran each candidate: a second after another."""

    key = "timed"

    def __init__(self, **options: Any) -> None:
        super().__init__(LATENCIES, reference=5e-3, **options)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for one in super().measure(candidates):
            begin = BEGIN + one.id
            run = Phase("run", begin + 0.25, begin + 0.5)
            phases = (Phase("build", begin, begin + 0.25, worker=7), run)
            yield replace(one, worker=one.id % 2, phases=phases)


@pytest.fixture(scope="module")
def workload() -> sl.Workload:
    return sl.workloads.matmul(64, 64, 64)


def tune(workload: sl.Workload, **options: Any) -> sl.TuneResult:
    given: dict[str, Any] = {
        "space": sl.Space([tile]),
        "trials": 8,
        "search": "random",
        "batch": 4,
        "finals": 2,
        "measurer": Timed(),
    }
    return sl.tune(workload, **(given | options))


def test_a_run_has_a_history_with_and_without_a_database(
    workload: sl.Workload, tmp_path: Path
) -> None:
    path = tmp_path / "tune.db"
    said: dict[str, Any] = {"notes": "a try", "tags": ["avx2", "night"]}
    found = [tune(workload, **said), tune(workload, database=path, **said)]
    for result in found:
        kept = result.history
        assert (kept.run.notes, kept.run.tags) == ("a try", ("avx2", "night"))
        assert (kept.name, kept.finished, kept.lacks) == ("matmul", "8 trials", {})
        assert list(kept.records) == list(result.records) and kept.unscheduled
        trials = [kept.trials[record.id or 0] for record in result.records]
        assert [one.worker for one in trials] == [0, 1] * 4
        assert [one.phases[0].begin - BEGIN for one in trials] == list(range(8))
        assert [phase.worker for phase in trials[0].phases] == [7, None]
        assert [one.activity for one in kept.phases] == [
            *("start", "search", "start", "search", "finals")
        ]
        assert [one.place for one in kept.finals] == list(range(len(kept.finals)))
        assert kept.finals[0].record_id == result.best.record.id
        (crashed,) = kept.rejections
        assert (crashed.reason, crashed.count, crashed.message) == ("crashed", 2, "it crashed")
        assert 0 < kept.seconds_at(kept.phases[-1].end) <= result.seconds
    assert history(path) == replace(
        found[1].history, run=history(path).run, unscheduled=found[1].unscheduled
    )
    again = tune(workload, database=path)
    assert again.earlier == 8 and again.history.trials == found[1].history.trials
    assert again.history.run.notes == "a try", "nothing else was said"
    assert tune(workload, database=path, notes="", tags=["new"]).history.run.tags == ("new",)
    assert (history(path).run.notes, history(path).run.tags) == ("", ("new",))


def test_a_saved_result_brings_its_history(workload: sl.Workload, tmp_path: Path) -> None:
    path, space = tmp_path / "saved.db", sl.Space([tile, broken])
    result = tune(workload, space=space, notes="kept later")
    for new in (9, 0):
        assert result.save(path) == new, "the unscheduled program has a record too"
        found, known = history(path), result.history
        assert (found.run.notes, found.finished, found.lacks) == ("kept later", "8 trials", {})
        assert [one.trace_json for one in found.records] == [
            one.trace_json for one in known.records
        ]
        assert [found.trials[one.id or 0].phases for one in found.records] == [
            known.trials[one.id or 0].phases for one in known.records
        ]
        assert (found.phases, found.rejections) == (known.phases, known.rejections)
        assert [one.samples for one in found.finals] == [one.samples for one in known.finals]
        with open_database(path) as database:
            assert len(database.runs()) == 1
    again = tune(workload, space=space, database=path)
    assert again.earlier == 8, "its programs are not measured again"
    assert history(path).run.id == again.history.run.id == 2


def test_an_interrupted_run_goes_on_without_doubles(workload: sl.Workload, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with pytest.warns(InterruptedWarning):
        first = tune(workload, database=path, measurer=Timed(interrupted_at=5), tags=["one"])
    assert len(first.records) == 5
    kept = history(path)
    assert list(kept.records) == list(first.records)
    assert len(kept.trials) == 5, "those of the batch that was cut off are there too"
    assert kept.trials == first.history.trials
    assert "interrupted before its finals" in kept.lacks["finals"]
    assert kept.finished == ""
    result = tune(workload, database=path)
    kept = history(path)
    assert (kept.finished, kept.run.tags) == ("8 trials", ("one",))
    assert len(kept.trials) == len(kept.records) == 8
    assert kept.trials == result.history.trials
    assert [one.activity for one in kept.phases].count("finals") == 1
    assert kept.phases[: len(first.history.phases)] == tuple(first.history.phases)
    assert kept.rejections == result.history.rejections
    assert kept.rejections[0].count == 2
    calls = [one.activity for one in kept.phases]
    assert calls == ["start", "search", "start", "search", "start", "search", "finals"], (
        "the unscheduled program was measured once"
    )


def test_rejections_are_counted_by_place(workload: sl.Workload, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    space = sl.Space([tile, broken])
    result = tune(workload, space=space, trials=24, database=path)
    for kept in (result.history, history(path)):
        places = {one.place: one for one in kept.rejections}
        refused = places["broken", "reorder", "C", "instruction"]
        assert refused.count == result.rejected["instruction"] > 3
        assert "reorder" in refused.message
        assert sum(one.count for one in kept.rejections) == result.rejected.total()
    # They come back with the search's state.
    again = tune(workload, space=space, trials=32, database=path)
    assert again.earlier == 24
    counts = {one.place: one.count for one in history(path).rejections}
    assert counts["broken", "reorder", "C", "instruction"] == again.rejected["instruction"]


def test_a_measurer_that_tells_no_times(workload: sl.Workload, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    result = tune(workload, measurer=Scripted(LATENCIES, 5e-3), database=path, finals=0)
    for kept in (result.history, history(path)):
        assert kept.lacks.keys() == {"time line", "finals"}
        assert "the measurer does not tell" in kept.lacks["time line"]
        assert [one.activity for one in kept.phases] == ["start", "search", "start", "search"]
    frame = result.to_dataframe()
    assert frame["worker"].isna().all() and frame["build_seconds"].isna().all()
    # Another run takes its records over: the times of the first are not its own.
    other = tune(workload, database=path, seed=1, trials=400, batch=64)
    taken = [one for one in other.records if one.run_id != other.history.run.id]
    assert taken and not {one.id for one in taken} & other.history.trials.keys()
    reused = other.to_dataframe()["reused"]
    assert reused.sum() == len(taken)
    assert history(path).run.seed == 1 and history(path, 1).run.seed == 0
    anew = tune(workload, database=path, remeasure=True)
    assert history(path) != history(path, 1) and len(history(path).trials) == len(anew.records)


@pytest.mark.parametrize("search", ["evolutionary", "coordinate_descent", "tree_search"])
def test_a_search_that_restores_its_state_counts_on(search: str, workload: sl.Workload) -> None:
    space = sl.Space([tile, broken])
    make = sl.search.SEARCHES[search]
    strategy = make(space, workload, 0)
    while not strategy.rejections and (asked := strategy.ask(16)):
        strategy.tell([sl.search.Outcome(one.id, measured(one.id, 1e-3)) for one in asked])
    other = make(space, workload, 0)
    other.load(strategy.save())
    assert list(other.rejections) == list(strategy.rejections)
    refused = next(one for one in strategy.rejections if one.reason == "instruction")
    assert (refused.module, refused.instruction, refused.block) == ("broken", "reorder", "C")
    assert refused.where == "broken: reorder at block C"


def test_a_data_frame_has_a_row_for_each_candidate(workload: sl.Workload) -> None:
    pytest.importorskip("pandas", reason="the extra `dataframe` is not installed")
    result = tune(workload)
    frame = result.to_dataframe()
    assert list(frame["number"]) == list(range(1, 9))
    assert list(frame["status"]) == ["ok", "crashed", "ok", "ok"] * 2
    assert (
        list(frame["best"][:4]) == [result.records[0].latency] * 2 + [result.records[2].latency] * 2
    )
    assert math.isnan(frame["latency"][1]) and math.isnan(frame["speedup"][1])
    assert frame["speedup"][2] == pytest.approx(5.0, rel=0.01)
    assert frame["seconds"].is_monotonic_increasing
    assert list(frame["worker"]) == [0, 1] * 4
    assert (frame["build_seconds"], frame["run_seconds"])[0][0] == frame["run_seconds"][0] == 0.25
    assert list(frame["verify_seconds"]) == [0.0] * 8
    assert list(frame["message"][:2]) == ["", "it crashed"]
    assert frame["program_key"].is_unique and set(frame["search"]) == {"random"}
    sites = [name for name in frame.columns if name.startswith("decision:")]
    decisions = result.records[2]
    trace = sl.Trace.from_json(decisions.trace_json)
    assert {f"decision:{site}": value for site, value in trace.decisions.items()} == {
        name: frame[name][2] for name in sites
    }
    assert list(frame.columns[-3:]) == ["message", "program_key", "record"]
    empty = replace(result.history, records=())
    assert list(empty.to_dataframe().columns) == [
        name for name in frame.columns if name not in sites
    ]


def test_without_pandas_the_extra_is_named(
    workload: sl.Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tune(workload, trials=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r'pip install "schedlang\[dataframe\]"'):
        result.to_dataframe()


def test_a_trace_is_what_perfetto_reads(workload: sl.Workload, tmp_path: Path) -> None:
    result = tune(workload, notes='"</script>')
    written = result.history.to_trace(tmp_path / "trace.json")
    document = json.loads(written.read_text())
    events = document["traceEvents"]
    assert document["otherData"]["notes"] == '"</script>'
    for event in events:
        assert event["ph"] in "MXC" and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["pid"] > 0 and event["tid"] > 0, "0 is reserved"
        assert event["pid"] != event["tid"], "a process's main thread comes before the others"
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    assert sorted(names.values()) == ["phases", "worker 0", "worker 1", "worker 7"]
    spans = [event for event in events if event["ph"] == "X"]
    assert all((event["pid"], event["tid"]) in names for event in spans)
    assert sum(event["cat"] == "trial" for event in spans) == 16
    assert {names[event["pid"], event["tid"]] for event in spans if event["name"] == "build"} == {
        "worker 7"
    }
    best = [event for event in events if event["ph"] == "C"]
    latencies = [record.latency * 1e6 for record in (result.records[0], result.records[2])]
    assert [event["args"]["us"] for event in best] == latencies
    nothing = replace(result.history, trials={}, phases=(), lacks={"time line": "it is old"})
    with pytest.raises(SchedlangError, match="the run of matmul has no time line: it is old"):
        nothing.to_trace(tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"notes": 7}, "notes=7; give a text"),
        ({"tags": "word"}, "tags='word'; give several words"),
        ({"tags": ["a", ""]}, "'' is no tag"),
        ({"tags": [1]}, "1 is no tag"),
        ({"tags": ["x" * 999]}, "a tag has at most 200"),
        ({"notes": "x" * 99_999}, "notes have 99,999 characters"),
    ],
)
def test_notes_and_tags_are_checked_before_anything_is_measured(
    workload: sl.Workload, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tune(workload, database=tmp_path / "tune.db", **changes)
    assert not (tmp_path / "tune.db").exists()


def test_a_full_disk_loses_no_result(workload: sl.Workload, tmp_path: Path) -> None:
    with open_database(tmp_path / "tune.db") as database:

        def full(*_: object) -> None:
            raise sl.DatabaseError("the disk is full")

        database.add_details = full  # type: ignore[method-assign]
        with pytest.raises(sl.DatabaseError, match="the disk is full") as info:
            tune(workload, database=database)
        result = info.value.result
        assert len(result.records) == 4 == len(result.history.trials)
        assert result.to_dataframe()["status"].tolist() == [
            str(one) for one in (Status.OK, Status.CRASHED, Status.OK, Status.OK)
        ]
