"""Look-ups of programs that only other machines have records of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang import host
from schedlang.database import Database
from schedlang.database.programs import Unreadable, put_program
from schedlang.errors import DatabaseError
from schedlang.measurement import Measurer, Status, as_measurer
from schedlang.targets import CPUTarget
from schedlang.tuning.kernels.rungs import Lead, Rungs, recorded_elsewhere
from tests.metaschedule.records import record_of
from tests.tuning.scripted import Scripted

pytestmark = pytest.mark.skipif(
    host.architecture() != "x86_64", reason="the records are of x86, and this machine is not"
)
HERE = sl.Target("cpu", cores=1)
WORKLOAD = sl.workloads.matmul(64, 64, 64)
# AVX2, on this machine where it has that, a larger machine, and one of another architecture.
NARROW, OTHER_CORES = (
    sl.Target("x86/avx2", cores=1).key,
    "cpu/znver4/cores=64/vector=512",
)
ARM = "cpu/neoverse-v1@aarch64/cores=1/vector=128"
# Its vectors have another width than those of any machine; whoever asks, it is the same space.
NARROW_SPACE = sl.default_space(sl.Target("x86/avx512", cores=1, vector_bits=64, machine="generic"))


@sl.module
def lossy(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """It adds up in 16 bits: the numbers are wrong."""
    sch.cache_write(block, 0, "global")
    sch.set_dtype(block, 0, "float16")


def add(
    database: Database,
    machine: str,
    *seeds: int,
    workload: sl.Workload = WORKLOAD,
    space: sl.Space = NARROW_SPACE,
    **changed: Any,
) -> list[sl.Trace]:
    """Records of drawn programs on a machine, the first one the fastest."""
    put_program(database, workload)
    traces = [space.sample(workload, seed=seed).trace for seed in seeds]
    database.append(
        record_of(
            workload,
            trace,
            1e-9 * (rank + 1),
            program_key=f"{machine}{rank}",
            target_key=machine,
            **changed,
        )
        for rank, trace in enumerate(traces)
    )
    return traces


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as made:
        yield made


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[Scripted]:
    """What measures: look-ups take the measurers of this list, in its order."""
    queue: list[Scripted] = []

    def measurer(target: CPUTarget, workload: Any, **options: Any) -> Measurer:
        assert options["verify"] == "all"
        return as_measurer(queue.pop(0))

    monkeypatch.setattr(CPUTarget, "measurer", measurer)
    return queue


def found_leads(
    database: Database, target: sl.Target = HERE, unreadable: Unreadable | None = None
) -> list[Lead]:
    noted = Unreadable() if unreadable is None else unreadable
    return Rungs(database, target, noted).nearest(WORKLOAD)


def origins(found: Sequence[Lead]) -> list[str]:
    return [one.origin for one in found]


# -- what is tried ------------------------------------------------------------------------------


def test_schedules_are_fitted_to_this_machine_and_taken_as_they_are(database: Database) -> None:
    [trace] = add(database, NARROW, 4)
    fitted, unchanged = found_leads(database)
    assert [fitted.kind, unchanged.kind] == ["device", "device"]
    assert fitted.origin == f"re-fitted a schedule of {NARROW}"
    assert unchanged.origin == f"took a schedule of {NARROW} as it is"
    assert unchanged.proposal.trace == trace
    # The decisions are the same as far as this machine's space has them.
    assert fitted.proposal.trace.choices.keys() & trace.choices.keys()
    drawn = {one.site: one.distribution for one in fitted.proposal.trace.instructions if one.site}
    own = HERE.default_space().sample(WORKLOAD, seed=0).trace
    shared = [one for one in own.instructions if one.site in drawn]
    assert shared and any(drawn[one.site] == one.distribution for one in shared)


def test_the_nearest_machine_comes_first_and_there_are_few(database: Database) -> None:
    for machine in (NARROW, ARM, OTHER_CORES, "board/of mine", "x86/avx9@a", "simulated"):
        add(database, machine, 1, 2, 3, 4, 5)
    target = sl.Target("cpu", 1, "znver4")
    assert recorded_elsewhere(WORKLOAD, target, database) == [OTHER_CORES, NARROW]
    found = found_leads(database, target)
    assert len(found) == 4 and {one.kind for one in found} == {"device"}
    assert all(OTHER_CORES in one for one in origins(found))


def test_only_what_was_right_and_fast_there_is_tried(database: Database) -> None:
    add(database, NARROW, 1, verified=False)
    add(database, NARROW, 2, status=Status.CRASHED, samples=())
    put_program(database, WORKLOAD)
    trace = sl.Schedule(WORKLOAD).trace
    plain = record_of(WORKLOAD, trace, 1e-9, search="unscheduled", target_key=NARROW)
    database.append([plain])
    assert found_leads(database) == []


def test_what_cannot_be_read_is_named_and_the_rest_is_tried(database: Database) -> None:
    add(database, NARROW, 4)
    [broken] = [one for one in database.query() if one.target_key == NARROW]
    text = broken.trace_json.replace('"get_block"', '"no_such_instruction"')
    assert text != broken.trace_json
    database.append(
        [
            record_of(
                WORKLOAD, sl.Schedule(WORKLOAD).trace, 1e-10, target_key=NARROW, trace_json=text
            )
        ]
    )
    unreadable = Unreadable()
    assert len(found_leads(database, HERE, unreadable)) == 2
    assert "no_such_instruction" in unreadable.listed


def test_equal_programs_of_other_machines_are_tried(database: Database) -> None:
    def product(*, swapped: bool) -> sl.Workload:
        a, b, d = (te.placeholder((64, 64), "float32", name) for name in "ABD")
        k = te.reduce_axis((0, 64), "k")
        c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
        e = te.compute((64, 64), lambda i, j: d[i, j] + c[i, j] if swapped else c[i, j] + d[i, j])
        return sl.workloads.from_te([d, b, a, e] if swapped else [a, b, d, e])

    one, other = product(swapped=False), product(swapped=True)
    assert one.key != other.key and one.exact_key == other.exact_key
    add(database, NARROW, 4, workload=one)
    found = Rungs(database, HERE, Unreadable()).nearest(other)
    assert [lead.kind for lead in found] == ["device", "device"]
    assert all(lead.proposal.trace.workload == other for lead in found)


# -- what is taken ------------------------------------------------------------------------------


def test_the_fastest_is_taken_told_and_kept(database: Database, scripted: list[Scripted]) -> None:
    add(database, NARROW, 4)
    # The default schedule, the fitted one, the one as it is.
    scripted.append(Scripted([4e-6, 2e-6, 9e-6], 5e-5))
    found = sl.best(WORKLOAD, HERE, database)
    assert found is not None and found.kind == "device" and not found.unscheduled
    assert found.latency == pytest.approx(2e-6, rel=0.01)
    assert found.notes[0] == (
        f"no record of this program on {HERE.key}: re-fitted a schedule of {NARROW}, verified and "
        "raced here against the default schedule: 2.00 times its speed"
    )
    assert found.notes[0] in str(found)
    stored = database.query(WORKLOAD.key, HERE.key)
    assert len(stored) == 4 and found.record in stored
    assert (found.record.search, found.record.proposal) == ("transfer", None)
    again = sl.best(WORKLOAD, HERE, database)
    assert again is not None and again.kind == "same" and again.record == found.record
    assert again.latency == found.latency and scripted == []


def test_the_race_decides_and_the_next_look_up_agrees(
    database: Database, scripted: list[Scripted]
) -> None:
    add(database, NARROW, 4)
    # In turns the default schedule, second so far, is faster than the fitted one.
    scripted.append(Scripted([2.1e-6, 2e-6, 9e-6], 5e-5, {0: 3e-6, 1: 2e-6}))
    found = sl.best(WORKLOAD, HERE, database)
    assert found is not None and found.kind == "default" and found.timing.source == "finals"
    assert found.latency == pytest.approx(2e-6, rel=0.01)
    assert "took the default schedule, verified and raced here against 2 others" in found.notes[0]
    assert f"re-fitted a schedule of {NARROW}" in found.notes[0]
    again = sl.best(WORKLOAD, HERE, database)
    assert again is not None and (again.kind, again.record) == ("same", found.record)


def test_the_unscheduled_program_may_win(database: Database, scripted: list[Scripted]) -> None:
    add(database, NARROW, 4)
    scripted.append(Scripted([4e-6, 5e-6, 6e-6], 1e-6))
    found = sl.best(WORKLOAD, HERE, database)
    assert found is not None and found.unscheduled and found.kind == "same"
    assert "the default schedule and 2 others were tried" in found.notes[0]


def test_a_default_that_fails_is_told(database: Database, scripted: list[Scripted]) -> None:
    add(database, NARROW, 4)
    scripted.append(Scripted([None, 2e-6, None], 5e-5))
    found = sl.best(WORKLOAD, HERE, database)
    assert found is not None and found.kind == "device"
    assert "the default schedule, which fails (crashed)" in found.notes[0]


def test_a_schedule_that_is_the_default_is_measured_once(
    database: Database, scripted: list[Scripted]
) -> None:
    put_program(database, WORKLOAD)
    trace = sl.default_schedule(WORKLOAD, HERE).trace
    database.append([record_of(WORKLOAD, trace, 1e-9, target_key=NARROW)])
    scripted.append(Scripted([2e-6], 5e-5))
    found = sl.best(WORKLOAD, HERE, database)
    assert found is not None and found.kind == "default"
    assert found.notes[0].endswith("verified here; those of its relatives are the same program")
    assert len(database.query(WORKLOAD.key, HERE.key)) == 2


def test_a_file_that_cannot_be_written_is_looked_up(
    tmp_path: Path, scripted: list[Scripted]
) -> None:
    path = tmp_path / "tune.db"
    with Database(path) as made:
        add(made, NARROW, 4)
    with Database(path, read_only=True) as reading:
        scripted.append(Scripted([4e-6, 2e-6, 9e-6], 5e-5))
        found = sl.best(WORKLOAD, HERE, reading)
        assert found is not None and found.kind == "device" and found.record.id is None
        assert found.latency == pytest.approx(2e-6, rel=0.01)
        assert reading.query(WORKLOAD.key, HERE.key) == []


def test_only_who_asks_for_it_gets_it(database: Database, scripted: list[Scripted]) -> None:
    add(database, NARROW, 4)
    assert sl.best(WORKLOAD, HERE, database, similar=False) is None
    told = f"stays unscheduled \\(there are records of {NARROW}: similar=True fits them to this"
    with pytest.warns(sl.UntunedWarning, match=told):
        sl.apply(WORKLOAD.mod, database, HERE)
    with pytest.raises(DatabaseError, match=f"there are records of {NARROW}: similar=True"):
        sl.apply(WORKLOAD.mod, database, HERE, strict=True)
    scripted.append(Scripted([4e-6, 2e-6, 9e-6], 5e-5))
    with pytest.warns(sl.UntunedWarning, match="re-fitted a schedule of .*2.00 times its speed"):
        applied = sl.apply(WORKLOAD.mod, database, HERE, similar=True)
    assert applied["main"].script() != WORKLOAD.mod["main"].script()


def test_elsewhere_nothing_is_tried(database: Database, scripted: list[Scripted]) -> None:
    add(database, NARROW, 4)
    add(database, ARM, 4)
    away = sl.Target("cpu", 4, "znver2" if HERE.mcpu != "znver2" else "znver3")
    with pytest.warns(
        sl.UntunedWarning, match=f"the machine itself can try the records of {NARROW}"
    ):
        assert sl.best(WORKLOAD, away, database) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sl.best(WORKLOAD, away, database, similar=False) is None
        # Nothing of another architecture is worth a word.
        board = sl.Target("aarch64/neon")
        assert sl.best(sl.workloads.matmul(8, 8, 8), board, database) is None


def test_where_all_were_tried_before_it_says_so(
    database: Database, scripted: list[Scripted]
) -> None:
    add(database, NARROW, 4)
    scripted.append(Scripted([None, None, None], 5e-5, complete=False))
    with pytest.warns(sl.UntunedWarning, match=f"no schedule of {NARROW} works here"):
        assert sl.best(WORKLOAD, HERE, database) is None
    assert {one.status for one in database.query(WORKLOAD.key, HERE.key)} == {Status.CRASHED}
    with pytest.warns(sl.UntunedWarning, match=f"no schedule of {NARROW} works here"):
        assert sl.best(WORKLOAD, HERE, database) is None


# -- on the machine -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    bool(sl.Target("x86/avx2").missing_features()), reason="this machine has no AVX2"
)
def test_records_of_another_instruction_set_are_measured_here(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    narrow = sl.Target("x86/avx2", cores=1)
    assert narrow.key != HERE.key
    sl.tune(WORKLOAD, narrow, trials=4, database=path, progress=False)
    found = sl.best(WORKLOAD, HERE, path)
    assert found is not None and found.record.verified and found.record.target_key == HERE.key
    # Which one is the fastest is a matter of luck.
    assert found.kind in ("device", "default") or found.unscheduled
    a, b = np.random.default_rng(0).random((2, 64, 64), np.float32)
    out = np.empty((64, 64), np.float32)
    found.build()(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4)
    again = sl.best(WORKLOAD, HERE, path)
    assert again is not None and (again.kind, again.record) == ("same", found.record)


def test_wrong_numbers_are_refused(database: Database) -> None:
    add(database, NARROW, 0, space=sl.Space([lossy]))
    found = sl.best(WORKLOAD, HERE, database)
    assert found is not None and found.record.verified and found.kind != "device"
    wrong = [one for one in database.query(WORKLOAD.key, HERE.key) if "float16" in one.trace_json]
    assert [one.status for one in wrong] == [Status.WRONG_RESULT]
