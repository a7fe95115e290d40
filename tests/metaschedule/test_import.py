"""MetaSchedule's JSON databases come in; damaged and hostile lines are reported and do no harm."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.database import JSONDatabase

import schedlang as sl
from schedlang.database import Database, open_database
from schedlang.errors import DatabaseError
from schedlang.measurement import Status
from schedlang.metaschedule import import_json
from schedlang.targets import as_target
from schedlang.tvm.program import from_json, structural_key, structurally_equal
from tests.metaschedule import peer

GMM = sl.workloads.matmul(32, 32, 32)
SOFTMAX = sl.workloads.softmax(16, 16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good database: every sketch of two workloads."""
    path = tmp_path_factory.mktemp("peer")
    peer.write_database(path, [GMM, SOFTMAX], peer.CPU)
    return path


def lines_of(folder: Path, file: str) -> list[str]:
    return (folder / file).read_text(encoding="utf-8").splitlines()


def write(folder: Path, workloads: list[str], records: list[str], end: str = "\n") -> Path:
    (folder / peer.WORKLOADS).write_text("\n".join(workloads) + "\n", encoding="utf-8")
    (folder / peer.RECORDS).write_text("\n".join(records) + end, encoding="utf-8")
    return folder


def check_programs(database: Database, schedules: list[Schedule], key: str) -> None:
    """Each record makes what TVM made, after a way through the file."""
    records = database.query(target_key=key)
    assert len(records) == len(schedules)
    for record, peers in zip(records, schedules, strict=True):
        workload = sl.Workload(from_json(database.get_workload(record.workload_key) or ""), "w")
        made = sl.Trace.from_json(record.trace_json, workload).replay().mod
        assert structurally_equal(made, peers.mod)
        assert record.program_key == structural_key(peers.mod)
        assert (record.search, record.verified, record.status) == ("metaschedule", False, "ok")


@pytest.mark.parametrize(
    ("workloads", "target"),
    [
        pytest.param(
            [GMM, SOFTMAX, sl.workloads.norm(32, 32), sl.workloads.CBR(8, 8, 4, 8, 3, 1, 1)],
            peer.CPU,
            id="cpu",
        ),
        pytest.param(
            [GMM, SOFTMAX, sl.workloads.TBG(16, 2, 16)],
            peer.CUDA,
            id="cuda",
        ),
        pytest.param(
            [sl.workloads.matmul(64, 64, 64, dtype="float16", out_dtype="float32")],
            peer.TENSOR_CORES,
            id="tensor-cores",
        ),
    ],
)
def test_every_sketch_of_the_default_spaces_comes_in(
    workloads: list[sl.Workload], target: Any, tmp_path: Path
) -> None:
    schedules = peer.write_database(tmp_path, workloads, target)
    database = Database()
    report = import_json(tmp_path, database=database, target=peer.Machine("m", target))
    assert report.skipped == () and report.failed == 0
    assert (report.records, report.workloads) == (len(schedules), len(workloads))
    check_programs(database, schedules, "m")


def test_a_record_keeps_what_it_was_measured_with(folder: Path, tmp_path: Path) -> None:
    report = import_json(folder, database=tmp_path / "tune.db")
    assert not report.skipped
    with open_database(tmp_path / "tune.db") as database:
        key = as_target(peer.CPU).key
        (best,) = database.best(GMM.key, key, "metaschedule")
        assert best.samples == (1e-6,)
        assert best.created == pytest.approx((folder / peer.RECORDS).stat().st_mtime)
        assert {name for _, name in database.workloads()} == {"main"}
        assert database.workloads(GMM.exact_key, GMM.family_key) == [(GMM.key, "main")]


def test_importing_again_adds_nothing(folder: Path) -> None:
    database = Database()
    first = import_json(folder, database=database)
    again = import_json(folder / peer.WORKLOADS, folder / peer.RECORDS, database=database)
    assert (again.records, again.known) == (0, first.records)
    assert database.count() == first.records
    assert f"{first.records} known before" in str(again)


def test_a_torn_last_line_is_reported_and_the_rest_is_there(folder: Path, tmp_path: Path) -> None:
    records = lines_of(folder, peer.RECORDS)
    records[-1] = records[-1][: len(records[-1]) // 2]
    write(tmp_path, lines_of(folder, peer.WORKLOADS), records, end="")
    with pytest.raises(Exception, match="."):
        JSONDatabase(work_dir=str(tmp_path))
    report = import_json(tmp_path, database=Database())
    assert report.records == len(records) - 1
    (torn,) = report.skipped
    assert (torn.reason, torn.line) == ("torn line", len(records))
    assert str(torn).startswith(f"{tmp_path / peer.RECORDS}, line {len(records)}: torn line: not ")
    assert str(report).endswith("1 lines skipped; 1 x torn line")


def test_garbage_in_the_middle_is_reported_and_the_rest_is_there(
    folder: Path, tmp_path: Path
) -> None:
    records = lines_of(folder, peer.RECORDS)
    garbage = ["\x00\x01 not a line", "[]", "", "{", "[" * 100_000, "9" * 10_000, "[0, [1, 2]]"]
    write(tmp_path, lines_of(folder, peer.WORKLOADS), [records[0], *garbage, *records[1:]])
    report = import_json(tmp_path, database=Database())
    assert report.records == len(records)
    assert [(one.line, one.reason) for one in report.skipped] == [
        (2, "not JSON"),
        (3, "not a record"),
        (5, "not JSON"),
        (6, "not JSON"),
        (7, "not JSON"),
        (8, "not a record"),
    ]


def edited(folder: Path, change: Callable[[list[Any]], None]) -> str:
    """The first record of a database with a change made to ``[trace, seconds, target, ...]``."""
    index, record = json.loads(lines_of(folder, peer.RECORDS)[0])
    change(record)
    return json.dumps([index, record])


def set_in(*path: Any) -> Callable[[list[Any]], None]:
    *where, last, value = path

    def change(record: list[Any]) -> None:
        item: Any = record
        for key in where:
            item = item[key]
        item[last] = value

    return change


def first_of(name: str) -> Callable[[list[Any]], int]:
    return lambda record: next(k for k, i in enumerate(record[0][0]) if i[0] == name)


def in_first(name: str, *path: Any) -> Callable[[list[Any]], None]:
    """A change in the first instruction of that name."""
    return lambda record: set_in(0, 0, first_of(name)(record), *path)(record)


def drop_decisions(record: list[Any]) -> None:
    record[0][1].clear()


def many_instructions(record: list[Any]) -> None:
    record[0][0] *= 1_000


HOSTILE: dict[str, tuple[Callable[[list[Any]], None], str, str]] = {
    "unknown instruction": (
        in_first("Split", 0, "Explode"),
        "unknown instruction",
        "schedlang has no instruction 'Explode'",
    ),
    "not an instruction": (in_first("Split", 0, 7), "bad trace", "must be a string, not 7"),
    "too few inputs": (in_first("GetLoops", 1, []), "bad trace", "0 of them, where 1 are"),
    "too many attributes": (in_first("GetLoops", 2, [1]), "bad trace", "where 0 are expected"),
    "unknown handle": (in_first("Split", 1, 0, "l999"), "bad trace", "'l999' is not defined"),
    "another kind of handle": (in_first("Split", 1, 0, "b0"), "bad trace", "another kind of"),
    "huge factor": (in_first("Split", 1, 1, 1 << 40), "bad trace", "more than 32 bits"),
    "beyond 64 bits": (in_first("Split", 1, 1, 1 << 70), "not JSON", "beyond 64 bits"),
    "huge annotation": (in_first("Annotate", 1, 1, 1e400), "not JSON", "Infinity is not JSON"),
    "factor that is no number": (in_first("Split", 1, 1, 0.5), "bad trace", "must be an integer"),
    "negative factor": (in_first("Split", 1, 1, -3), "does not apply", "Split"),
    "no flag": (in_first("Split", 2, 0, 2), "bad trace", "must be true or false"),
    "outputs": (in_first("Split", 3, ["l70"]), "bad trace", "1 names for"),
    "output name": (in_first("GetLoops", 3, 0, "__class__"), "bad trace", "is no name, or used"),
    "no decisions": (drop_decisions, "bad trace", "there is none, so the program is not known"),
    "decision of nothing": (set_in(0, 1, 0, 0, 10**6), "bad trace", "no instruction 1000000"),
    "negative position": (set_in(0, 1, 0, 0, -1), "bad trace", "no instruction -1"),
    "wrong tile": (set_in(0, 1, 0, 1, [3, 5]), "does not apply", "not in the support"),
    "tile of text": (set_in(0, 1, 0, 1, "a"), "bad trace", "must be a list"),
    "many instructions": (many_instructions, "bad trace", "at most 2000 are read"),
    "no trace": (set_in(0, None), "bad trace", "must be a list of instructions"),
    "negative latency": (set_in(1, [-1.0]), "no latency", "a latency is positive"),
    "latency of text": (set_in(1, ["fast"]), "not a record", "its latencies are"),
    "no target": (set_in(2, None), "not a record", "must be an object with a kind"),
    "other kind": (set_in(2, "kind", "cuda"), "other target", "of kind cuda; give target="),
    "no cores": (set_in(2, "num-cores", 10**9), "other target", "says no number of cores"),
    "no CPU": (set_in(2, "mcpu", "\x00"), "other target", "."),
    "no such workload": (lambda record: None, "workload missing", "there is no workload 99"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_refused_before_tvm_sees_it(
    name: str, folder: Path, tmp_path: Path
) -> None:
    change, reason, detail = HOSTILE[name]
    line = edited(folder, change)
    if name == "no such workload":
        line = "[99" + line[line.index(",") :]
    good = lines_of(folder, peer.RECORDS)[1]
    write(tmp_path, lines_of(folder, peer.WORKLOADS), [line, good])
    report = import_json(tmp_path, database=Database())
    assert report.records == 1
    (skipped,) = report.skipped
    assert (skipped.line, skipped.reason) == (1, reason)
    assert detail in skipped.detail or detail == "."


def test_what_metaschedule_could_not_time_is_a_failed_record(folder: Path, tmp_path: Path) -> None:
    lines = [edited(folder, set_in(1, value)) for value in ([], None, [1e10])]
    write(tmp_path, lines_of(folder, peer.WORKLOADS), lines[:1])
    database = Database()
    for line in lines:
        write(tmp_path, lines_of(folder, peer.WORKLOADS), [line])
        report = import_json(tmp_path, database=database)
        assert report.failed + report.known == 1 and report.records == 0
    (record,) = database.query(status=Status.RUN_ERROR)
    assert record.message == "MetaSchedule could not build or run it"


def graph_of(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(line)[1])[8:])
    return found


def line_of(graph: Any) -> str:
    text = json.dumps(graph).encode()
    return json.dumps(["1", base64.b64encode(len(text).to_bytes(8, "little") + text).decode()])


def node(graph: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(n["data"] for n in graph["nodes"] if n["type"] == kind)
    return found


def break_graph(name: str, graph: dict[str, Any]) -> None:
    if name == "a cycle":
        node(graph, "tirx.For")["body"] = next(
            k for k, n in enumerate(graph["nodes"]) if n["type"] == "tirx.For"
        )
    elif name == "no body":
        node(graph, "tirx.For")["body"] = 0
    elif name == "a statement for a number":
        body = node(graph, "tirx.For")["body"]
        node(graph, "s_tir.SBlockRealize")["predicate"] = body
        graph["nodes"].append(graph["nodes"][-1])
    elif name == "an unknown kind of loop":
        node(graph, "tirx.For")["kind"] = 77
    elif name == "an unknown type":
        graph["nodes"][1] = {"type": "os.System", "data": {}}
    elif name == "a missing field":
        del node(graph, "tirx.For")["min"]
    elif name == "no root":
        graph["root_index"] = 10**6
    else:
        assert name == "a function of text"
        graph["root_index"] = next(
            k for k, n in enumerate(graph["nodes"]) if n["type"] == "ffi.String"
        )


@pytest.mark.parametrize(
    "name",
    [
        "a cycle",
        "no body",
        "a statement for a number",
        "an unknown kind of loop",
        "an unknown type",
        "a missing field",
        "no root",
        "a function of text",
    ],
)
def test_a_hostile_program_is_refused_and_its_records_are_skipped(
    name: str, folder: Path, tmp_path: Path
) -> None:
    workloads = lines_of(folder, peer.WORKLOADS)
    graph = graph_of(workloads[0])
    break_graph(name, graph)
    write(tmp_path, [line_of(graph), workloads[1]], lines_of(folder, peer.RECORDS))
    report = import_json(tmp_path, database=Database())
    assert report.workloads == 1 and report.records
    assert report.skipped[0].reason == "workload unreadable"
    assert set(report.reasons) == {"workload unreadable", "workload missing"}


def test_a_torn_workload_leaves_the_others(folder: Path, tmp_path: Path) -> None:
    workloads = lines_of(folder, peer.WORKLOADS)
    workloads[-1] = workloads[-1][:200]
    write(tmp_path, workloads, lines_of(folder, peer.RECORDS))
    (tmp_path / peer.WORKLOADS).write_text("\n".join(workloads), encoding="utf-8")
    report = import_json(tmp_path, database=Database())
    assert report.workloads == 1
    assert report.skipped[0].reason == "torn line"


def test_records_for_another_kind_of_target_are_left_out(folder: Path) -> None:
    report = import_json(folder, database=Database(), target=peer.Machine("gpu", peer.CUDA))
    assert report.records == 0
    assert report.skipped[0].detail == "it is for a target of kind llvm, not cuda"


def test_wrong_calls_say_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="give database="):
        import_json(tmp_path)
    with pytest.raises(DatabaseError, match="No such file or directory; give the folder of a"):
        import_json(tmp_path, database=Database())
