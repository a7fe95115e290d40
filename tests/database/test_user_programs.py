"""Records of programs that users write are found again, and what cannot be read is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tvm

import schedlang as sl
from schedlang.database import Database, merge, open_database
from schedlang.database.programs import put_program
from schedlang.errors import DatabaseError
from schedlang.metaschedule import as_tvm_database, export_json
from schedlang.tuning.kernels.warm_start import WarmStart
from schedlang.tvm.program import as_main, structurally_equal, to_json
from schedlang.tvm.stored_program import read_stored_program
from tests.database import user_programs
from tests.database.user_programs import PROGRAMS, scale
from tests.metaschedule.records import TARGET, record_of

ROOT = Path(__file__).parents[2]
DAMAGED = '{"nodes": [], "root_index": 3}'


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, sl.TuneResult]]:
    """A database of the programs, tuned with two trials each."""
    path = tmp_path_factory.mktemp("user") / "tune.db"
    results = {
        name: sl.tune(make(), trials=2, finals=0, verify="all", database=path, progress=False)
        for name, make in PROGRAMS.items()
    }
    return path, results


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_found_again(name: str, tuned: tuple[Path, dict[str, sl.TuneResult]]) -> None:
    path, results = tuned
    workload = PROGRAMS[name]()
    found = sl.best(workload, "cpu", path, similar=False)
    assert found is not None and found.kind == "same"
    assert found.record == results[name].best.record
    applied = sl.apply(workload.mod, path)
    assert structurally_equal(as_main(applied["main"]), found.mod)


def test_a_fresh_process_finds_all(tuned: tuple[Path, dict[str, sl.TuneResult]]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.database.user_programs", str(tuned[0])],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    kinds = [line.split()[0] for line in done.stdout.splitlines()]
    assert kinds == ["same"] * len(PROGRAMS)


def test_they_are_exported_and_merged(
    tuned: tuple[Path, dict[str, sl.TuneResult]], tmp_path: Path
) -> None:
    path, results = tuned
    verified = sum(r.ok and r.verified for one in results.values() for r in one.records)
    report = export_json(path, tmp_path)
    # Each program as it is has a record too.
    assert (report.records, report.workloads) == (verified + len(PROGRAMS), len(PROGRAMS))
    assert report.unexpressed == ()
    into = Database()
    with open_database(path, read_only=True) as source:
        assert merge(source, into).programs == len(PROGRAMS)
    for make in PROGRAMS.values():
        assert sl.best(make(), "cpu", into, similar=False) is not None


# -- what is no part of the program ----------------------------------------------------------------


def test_places_in_the_users_file_are_not_stored() -> None:
    text = to_json(as_main(scale))
    assert '"ir.Span"' in text and Path(user_programs.__file__).name in text
    workload = sl.workloads.from_prim_func(scale)
    stored = to_json(workload.mod)
    assert "Span" not in stored and "SourceName" not in stored
    assert Path(user_programs.__file__).name not in stored
    assert structurally_equal(workload.mod, as_main(scale))
    assert workload.key == sl.workloads.from_module(tvm.ir.load_json(text)).key
    assert dict(workload.func.attrs) == dict(as_main(scale)["main"].attrs)


def test_a_program_stored_with_its_places_is_read() -> None:
    text = to_json(as_main(scale))
    read = read_stored_program(text)
    assert structurally_equal(read, as_main(scale))
    assert "Span" not in to_json(read)
    workload = sl.workloads.from_prim_func(scale)
    database = Database()
    database.put_workload(workload.key, "scale", text)
    database.append([record_of(workload, sl.Schedule(workload).trace, 1e-6)])
    assert sl.best(workload, TARGET, database) is not None


def test_hostile_places_are_not_read() -> None:
    document = json.loads(to_json(as_main(scale)))
    places = [node for node in document["nodes"] if node["type"] in ("ir.Span", "ir.SourceName")]
    for number, node in enumerate(places):
        node["data"] = ({"source_name": len(document["nodes"]) - 1}, "x" * 99, None, [1])[
            number % 4
        ]
    assert structurally_equal(read_stored_program(json.dumps(document)), as_main(scale))
    document["nodes"][document["root_index"]]["type"] = "ir.Span"
    with pytest.raises(sl.WorkloadError, match="the root is not a ir.IRModule"):
        read_stored_program(json.dumps(document))


def test_a_function_with_a_target_is_read_and_its_target_is_checked() -> None:
    func = scale.with_attr("target", tvm.target.Target("llvm", host="llvm"))
    workload = sl.workloads.from_prim_func(func)
    text = to_json(workload.mod)
    assert sl.Workload(read_stored_program(text), "read") == workload
    document = json.loads(text)
    number = next(n for n, one in enumerate(document["nodes"]) if one["type"] == "target.Target")
    target = document["nodes"][number]
    for field, wrong in (("host", 1), ("kind", 1), ("attrs", number + 1), ("keys", number)):
        changed = {**target, "data": {**target["data"], field: wrong}}
        document["nodes"][number] = changed
        with pytest.raises(sl.WorkloadError, match=f"target.Target.{field}"):
            read_stored_program(json.dumps(document))


# -- what cannot be read ---------------------------------------------------------------------------


def with_damage(*, keys: bool = False) -> tuple[Database, sl.Workload]:
    """A database with a record of a program that cannot be read."""
    workload = PROGRAMS["te"]()
    database = Database()
    structural = (workload.exact_key, workload.family_key) if keys else ("", "")
    database.put_workload(workload.key, "sum", DAMAGED, *structural)
    database.append([record_of(workload, sl.Schedule(workload).trace, 1e-6)])
    return database, workload


def unreadable(workload: sl.Workload) -> str:
    return rf"the program of workload {workload.key} \('sum'\): a stored program cannot be read"


def test_best_and_apply_name_a_program_that_cannot_be_read() -> None:
    database, workload = with_damage()
    with pytest.warns(sl.UnreadableWarning, match=unreadable(workload)) as given:
        assert sl.best(workload, TARGET, database, similar=False) is None
    assert len(given) == 1 and given[0].filename == __file__
    with (
        pytest.warns(sl.UntunedWarning),
        pytest.warns(sl.UnreadableWarning, match=unreadable(workload)) as given,
    ):
        sl.apply(workload.mod, database, TARGET)
    assert [one.filename for one in given] == [__file__] * 2
    with pytest.raises(DatabaseError, match=unreadable(workload)):
        sl.apply(workload.mod, database, TARGET, strict=True)


def test_a_program_of_the_same_family_that_cannot_be_read_is_named() -> None:
    database, workload = with_damage(keys=True)
    other = sl.workloads.from_te(user_programs.added(subtract=True))
    assert other.family_key == workload.family_key and other.key != workload.key
    with pytest.warns(sl.UnreadableWarning, match=unreadable(workload)):
        assert sl.best(other, "cpu", database) is None


def test_a_record_that_cannot_be_read_is_named() -> None:
    database, workload = Database(), PROGRAMS["te"]()
    database.put_workload(workload.key, "sum", to_json(workload.mod))
    elsewhere = sl.Schedule(sl.workloads.matmul(8, 8, 8))
    elsewhere.get_block("C")
    trace = elsewhere.trace
    database.append(
        [record_of(workload, trace, 1e-6), record_of(workload, trace, 2e-6, trace_json="{")]
    )
    with pytest.warns(
        sl.UnreadableWarning, match="(?s)record 1 of .*get_block.*\n  record 2 of .*"
    ) as given:
        assert sl.best(workload, TARGET, database, similar=False) is None
    assert len(given) == 1


def test_tvms_view_and_the_export_say_what_they_could_not_read(tmp_path: Path) -> None:
    database, workload = with_damage()
    view = as_tvm_database(database, TARGET)
    assert view.query_tuning_record(workload.mod, TARGET.tvm_target(), "f") is None
    assert f"the program of workload {workload.key}" in view.missed["f"]
    with pytest.warns(sl.UnreadableWarning, match=unreadable(workload)):
        assert view.get_all_tuning_records() == []
    report = export_json(database, tmp_path, target=TARGET)
    assert report.reasons == {"unreadable workload": 1}


def test_a_warm_start_names_what_it_could_not_read() -> None:
    database, workload = with_damage()
    (blank,) = database.query()
    strategy = sl.search.Evolutionary(sl.default_space(TARGET), workload, seed=0)
    past = WarmStart(database, workload, blank, True, transfer=True, reuse=True)
    with pytest.warns(sl.UnreadableWarning, match=unreadable(workload)):
        past.prepare(strategy)


def test_tuning_again_repairs_a_program_that_cannot_be_read() -> None:
    database, workload = with_damage()
    put_program(database, workload)
    assert database.get_workload(workload.key) == to_json(workload.mod)
    assert sl.best(workload, TARGET, database, similar=False) is not None
