"""Runs that start from programs of other shapes, and look-ups that try them."""

from __future__ import annotations

from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database
from schedlang.database.programs import put_program
from schedlang.search import CoordinateDescent
from schedlang.tuning.kernels.rungs import nearest_kin
from schedlang.tuning.kernels.warm_start import WarmStart
from schedlang.tuning.records import blank_record
from tests.crash.tuner import Replayed
from tests.metaschedule.records import TARGET, record_of

SPACE = sl.default_space(TARGET)
WANTED = sl.workloads.matmul(64, 64, 96)
NEAR, FAR = sl.workloads.matmul(64, 64, 64), sl.workloads.matmul(8, 512, 8)


def add(database: Database, workload: sl.Workload, *seeds: int, **changed: Any) -> list[sl.Trace]:
    """Records of drawn programs, the first one the fastest."""
    put_program(database, workload)
    traces = [SPACE.sample(workload, seed=seed).trace for seed in seeds]
    database.append(
        record_of(
            workload, trace, 1e-6 * (rank + 1), program_key=f"{workload.key}{rank}", **changed
        )
        for rank, trace in enumerate(traces)
    )
    return traces


@pytest.fixture
def database() -> Database:
    return Database()


class Told(CoordinateDescent):
    """Keeps what it was told to start from."""

    def suggest(self, traces: Any) -> None:
        self.given = list(traces)
        super().suggest(traces)


def warm_start(database: Database, *, transfer: bool = True) -> WarmStart:
    blank = blank_record(WANTED, TARGET, "s", 0)
    return WarmStart(database, WANTED, blank, True, transfer=transfer, reuse=False)


def suggested(database: Database, known: int | None = None) -> list[sl.Trace]:
    search = Told(SPACE, WANTED, 0)
    search.given = []
    warm_start(database).prepare(search, known)
    return search.given


def test_the_nearest_shapes_come_first(database: Database) -> None:
    for workload in (FAR, NEAR, WANTED, sl.workloads.softmax(64, 64)):
        put_program(database, workload)
    assert [key for key, _ in nearest_kin(database, WANTED)] == [NEAR.key, FAR.key]


def test_a_search_starts_from_the_two_fastest_of_each(database: Database) -> None:
    far = add(database, FAR, 1, 2, 3)
    near = add(database, NEAR, 4, 5, 6)
    given = suggested(database)
    assert len(given) == 4
    for trace, source in zip(given, (near[0], far[0], near[1], far[1]), strict=True):
        shared = trace.choices.keys() & source.choices.keys()
        assert "panel_order:C" in shared or "structure:C" in shared
        assert all(trace.choices[site] == source.choices[site] for site in shared)
        assert trace.decisions["unroll"] == source.decisions["unroll"]
        assert len(trace.replay(WANTED).trace) == len(trace)


def test_what_is_nearer_by_its_structure_comes_instead(database: Database) -> None:
    add(database, NEAR, 4)
    [own] = add(database, WANTED, 7)
    assert suggested(database) == [own]


def test_unverified_and_unscheduled_programs_teach_nothing(database: Database) -> None:
    add(database, NEAR, 4, verified=False)
    put_program(database, FAR)
    database.append([record_of(FAR, sl.Schedule(FAR).trace, 1e-6, search="unscheduled")])
    assert suggested(database) == []
    assert warm_start(database).newest == 0


def test_a_run_that_goes_on_starts_from_what_was_known(database: Database) -> None:
    add(database, NEAR, 4)
    known = warm_start(database).newest
    before = suggested(database)
    add(database, FAR, 5)
    add(database, WANTED, 6)
    assert suggested(database, known) == before
    assert suggested(database, 0) == []
    assert warm_start(database, transfer=False).newest == 0


def test_other_names_are_matched_by_their_places(database: Database) -> None:
    renamed = sl.workloads.from_script(
        """
@T.prim_func(s_tir=True)
def main(X: T.Buffer((64, 64), "float32"), Y: T.Buffer((64, 64), "float32"),
         Z: T.Buffer((64, 64), "float32")):
    for p, q, r in T.grid(64, 64, 64):
        with T.sblock("Z"):
            vp, vq, vr = T.axis.remap("SSR", [p, q, r])
            with T.init():
                Z[vp, vq] = T.float32(0)
            Z[vp, vq] = Z[vp, vq] + X[vp, vr] * Y[vr, vq]
"""
    )
    [trace] = add(database, renamed, 4)
    [given] = suggested(database)
    assert [site.replace("C", "Z") for site in given.choices] == list(trace.choices)
    assert list(given.choices.values()) == list(trace.choices.values())


def test_tune_starts_from_kin(database: Database) -> None:
    here = sl.Target("cpu")
    add(database, NEAR, 4, target_key=here.key)
    call: dict[str, Any] = {"trials": 4, "search": CoordinateDescent, "progress": False}
    result = sl.tune(WANTED, here, database=database, measurer=Replayed(), **call)
    first = sl.Trace.from_json(result.records[0].trace_json, WANTED)
    assert first.choices == SPACE.sample(NEAR, seed=4).trace.choices
    # The same call has the run, and what it started from.
    again = sl.tune(WANTED, here, database=database, measurer=Replayed(), **call)
    assert again.earlier == len(again.records)


@pytest.mark.slow
def test_best_tries_schedules_of_kin_that_are_verified_and_measured(database: Database) -> None:
    here = sl.Target("cpu")
    add(database, NEAR, 4, target_key=here.key)
    assert sl.best(WANTED, here, database, similar=False) is None
    found = sl.best(WANTED, here, database)
    assert found is not None and found.record.verified
    assert found.unscheduled or "of other shapes" in found.notes[0]
    assert found.unscheduled or found.kind in ("kin", "default")
    again = sl.best(WANTED, here, database)
    assert again is not None and again.kind == "same"
