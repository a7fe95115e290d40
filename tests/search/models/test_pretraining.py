"""Teaching a model what a database holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from schedlang.database import Database, Record
from schedlang.language.schedule import Trace
from schedlang.measurement import Status
from schedlang.search.cost_model import Example, Pretraining, RandomModel, pretrain
from schedlang.search.gradient_boosting import GradientBoosting
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tvm.analysis.work import statement_features
from schedlang.tvm.program import to_json
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload


class Pupil(RandomModel):
    """Keeps what it is taught."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[list[Example]] = []

    def update(self, examples: Sequence[Example]) -> None:
        self.updates.append(list(examples))

    @property
    def taught(self) -> list[Example]:
        (only,) = self.updates
        return only


def record(workload: Workload, seed: int, target: str = "here", **changes: Any) -> Record:
    trace = ORDINARY.sample(workload, seed=seed).trace
    made = Record(
        workload_key=workload.key,
        workload_name=workload.name,
        target_key=target,
        toolchain_key="tools",
        trace_json=trace.to_json(),
        status=Status.OK,
        samples=((1 + seed) * 1e-6,),
        message="",
        verified=True,
        search="random",
        seed=0,
        created=time.time(),
    )
    return replace(made, **changes)


def stored(*workloads: Workload) -> Database:
    database = Database()
    for workload in workloads:
        database.put_workload(workload.key, workload.name, to_json(workload.mod))
    return database


def test_records_become_examples_in_order() -> None:
    one, two = small_workload(), matmul(16, 32, 8)
    database = stored(one, two)
    failed = {"status": Status.WRONG_RESULT, "samples": ()}
    database.append([record(two, 5), record(one, 0), record(one, 1, **failed), record(one, 2)])
    model = Pupil()
    assert pretrain(model, database, target_key="here") == Pretraining(4, {})
    assert [(e.workload_key, e.latency) for e in model.taught] == [
        (one.key, pytest.approx(1e-6)),
        (one.key, None),
        (one.key, pytest.approx(3e-6)),
        (two.key, pytest.approx(6e-6)),
    ]
    programs = [(one, 0), (one, 1), (one, 2), (two, 5)]
    raws = [ORDINARY.sample(workload, seed=seed).raw for workload, seed in programs]
    for example, features in zip(model.taught, statement_features(raws), strict=True):
        assert features is not None
        np.testing.assert_array_equal(example.features, features)


def test_what_cannot_be_used_is_skipped_and_counted() -> None:
    workload, unknown = small_workload(), matmul(16, 32, 8)
    database = stored(workload)
    for key, text in (("torn", to_json(workload.mod)[:-40]), ("odd", "[1]"), ("empty", "{}")):
        database.put_workload(key, "broken", text)
    good = record(workload, 0)
    other_extents = record(unknown, 3).trace_json
    database.append(
        [
            replace(good, workload_key="torn"),
            replace(good, workload_key="odd"),
            replace(good, workload_key="empty"),
            replace(good, trace_json="no trace"),
            good,
            replace(good, trace_json=other_extents),
            replace(good, workload_key=unknown.key),
        ]
    )
    with pytest.raises(Exception, match="support"):
        Trace.from_json(other_extents, workload).replay()
    model = Pupil()
    done = pretrain(model, database)
    assert done.learned == len(model.taught) == 1
    assert done.skipped == {
        "no longer applicable": 1,
        "unreadable trace": 1,
        "unreadable workload": 3,
    }
    assert str(done) == (
        "1 records learned, 1 skipped: no longer applicable, 1 skipped: unreadable trace, "
        "3 skipped: unreadable workload"
    )


def test_a_program_without_features_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = small_workload()
    database = stored(workload)
    database.append([record(workload, 0), record(workload, 1)])
    monkeypatch.setattr(
        "schedlang.search.cost_model.statement_features",
        lambda raws, threads: [None, *statement_features(raws[1:], threads)],
    )
    model = Pupil()
    assert pretrain(model, database) == Pretraining(1, {"no features": 1})
    assert model.taught[0].latency == pytest.approx(2e-6)


def test_only_what_is_asked_for() -> None:
    one, two = small_workload(), matmul(16, 32, 8)
    database = stored(one, two)
    database.append([record(one, 0), record(one, 1, "there"), record(two, 2)])

    def latencies(**wanted: Any) -> list[float | None]:
        model = Pupil()
        pretrain(model, database, **wanted)
        return [e.latency and round(e.latency * 1e6) for e in model.taught]

    assert latencies() == [1, 2, 3]
    assert latencies(target_key="here") == [1, 3]
    assert latencies(workloads=[two.key]) == [3]
    assert latencies(workloads=[one.key], target_key="there") == [2]
    assert latencies(workloads=[]) == []


def test_the_machine_of_the_newest_record_is_the_present_one() -> None:
    workload = small_workload()
    database = stored(workload)
    database.append([record(workload, 0), record(workload, 1, "there"), record(workload, 2)])
    model = Pupil()
    pretrain(model, database)
    keys = [example.workload_key for example in model.taught]
    assert keys == [workload.key, f"{workload.key}@there", workload.key]


def test_a_limit_takes_old_and_new_ones() -> None:
    workload = small_workload()
    database = stored(workload)
    database.append([record(workload, seed) for seed in range(10)])
    model = Pupil()
    assert pretrain(model, database, limit=4).learned == 4
    assert [round((e.latency or 0) * 1e6) - 1 for e in model.taught] == [0, 2, 5, 7]
    with pytest.raises(ValueError, match="limit must be at least 1"):
        pretrain(model, database, limit=0)


def test_a_model_is_trained_after_it() -> None:
    workload = small_workload()
    database = stored(workload)
    database.append([record(workload, seed) for seed in range(8)])
    model = GradientBoosting()
    pretrain(model, database)
    assert model.trained
    assert pretrain(GradientBoosting(), stored(workload)) == Pretraining(0, {})
