"""``compile_network``: which program each function gets, and what the summary says of it."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import schedlang as sl
from schedlang import host
from schedlang.database import Database
from schedlang.errors import WorkloadError
from schedlang.networks import Network
from schedlang.tuning.kernels import defaults as many
from schedlang.tvm.packing import with_weights
from schedlang.tvm.program import named_functions, replace_functions
from tests.networks.compiled.relax_networks import (
    TARGET,
    first_block,
    layers,
    module,
    parallel,
    store,
    tensor,
)
from tests.tuning.fake_time import FakeTime


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as made:
        yield made


@pytest.fixture(scope="module")
def network() -> Network:
    return sl.import_network(layers())


def test_every_record_is_applied(network: Network, database: Database) -> None:
    for place, task in enumerate(network.tasks):
        store(database, task, 1e-3)
        store(database, task, 1e-4 * (place + 1), parallel(task))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exe = sl.compile_network(network, database)
    assert [task.origin for task in exe.summary] == ["tuned"] * len(network.tasks)
    assert exe.verify().passed
    by_name = {task.name: task for task in exe.summary}
    first = by_name["fused_matmul_relu"]
    assert (first.weight, first.latency, first.unscheduled_latency) == (2, 1e-4, 1e-3)
    assert first.speedup == pytest.approx(10)
    assert first.record == 2
    assert exe.summary.latency == pytest.approx(sum(one.total for one in exe.summary))
    assert sum(exe.summary.share(one) for one in exe.summary) == pytest.approx(1)
    totals = [one.total for one in exe.summary]
    assert totals == sorted(totals, reverse=True)


def test_the_fastest_verified_record_wins(network: Network, database: Database) -> None:
    task = network.tasks[0]
    store(database, task, 1e-3)
    wanted = store(database, task, 2e-4, parallel(task))
    store(database, task, 3e-4, parallel(task, 1))
    store(database, task, 1e-5, parallel(task, 1), verified=False)
    with pytest.warns(
        sl.UntunedWarning, match=r"has no record on .* is not tuned: \n  matmul1\n  transpose$"
    ):
        exe = sl.compile_network(network, database)
    assert {one.name: one.record for one in exe.summary}["fused_matmul_relu"] == wanted.id


def test_the_unscheduled_function_stays_where_it_is_fastest(
    network: Network, database: Database
) -> None:
    for task in network.tasks:
        store(database, task, 1e-5)
        store(database, task, 1e-4, parallel(task))
    exe = sl.compile_network(network, database)
    assert {one.origin for one in exe.summary} == {"unscheduled"}
    assert {one.speedup for one in exe.summary} == {1}
    assert not any(math.isnan(one.latency) for one in exe.summary)


def test_without_records_nothing_is_measured(network: Network) -> None:
    exe = sl.compile_network(network)
    assert {one.record for one in exe.summary} == {None}
    assert "tuned" not in {one.origin for one in exe.summary}
    assert all(math.isnan(one.latency) for one in exe.summary)
    assert math.isnan(exe.summary.latency) and not exe.summary.complete
    assert exe.verify().passed


def test_a_record_that_does_not_apply_gives_way_to_the_next(
    network: Network, database: Database
) -> None:
    for task in network.tasks:
        store(database, task, 1e-3)
    task = network.tasks[0]
    wanted = store(database, task, 1e-4, parallel(task))
    broken = parallel(task).trace.to_json().replace('"root"', '"nowhere"')
    store(database, task, 1e-5, parallel(task), trace_json=broken)
    with pytest.warns(sl.UnreadableWarning, match="nowhere"):
        exe = sl.compile_network(network, database)
    assert {one.name: one.record for one in exe.summary}[task.name] == wanted.id
    assert exe.verify().passed


def test_a_program_that_cannot_be_compiled_gives_way_to_the_next(
    network: Network, database: Database
) -> None:
    for task in network.tasks:
        store(database, task, 1e-3)
    task = network.tasks[0]
    wanted = store(database, task, 1e-4, parallel(task))
    sch = sl.Schedule(task.workload)
    sch.bind(sch.get_loops(first_block(sch))[0], "threadIdx.x")
    failing = store(database, task, 1e-5, sch)
    with pytest.warns(sl.UntunedWarning, match=f"record {failing.id} cannot be compiled"):
        exe = sl.compile_network(network, database)
    assert {one.name: one.record for one in exe.summary}[task.name] == wanted.id
    assert exe.verify().passed


def test_functions_of_one_task_share_its_record(database: Database) -> None:
    """Three functions that differ in axes of extent 1 and in the order of their arguments."""
    inputs = [("x", (4, 6), "float32"), ("y", (1, 4, 6), "float32"), ("z", (4, 1, 6), "float32")]
    op = relax.op

    def compute(x: relax.Expr, y: relax.Expr, z: relax.Expr) -> list[relax.Expr]:
        weight = relax.const(tensor(4, 6))
        one, two = op.subtract(x, weight), op.subtract(y, weight)
        return [one, two, op.subtract(relax.const(tensor(4, 1, 6, seed=1)), z)]

    network = sl.import_network(module(inputs, compute))
    [task] = network.tasks
    assert len(task.functions) == 3
    record = store(database, task, 1e-5, parallel(task))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exe = sl.compile_network(network, database)
    [row] = exe.summary
    assert (row.origin, row.weight, row.record) == ("tuned", 3, record.id)
    assert exe.verify().passed
    assert [output.shape for output in exe(*network.random_inputs())] == [
        (4, 6),
        (1, 4, 6),
        (4, 1, 6),
    ]
    assert len(exe.profile(repeats=1)) == 1, "the same code runs for all of them"


def test_packed_weights(network: Network, database: Database) -> None:
    """Two calls with other weights: each gets its own, packed when the network is compiled."""
    functions = {
        name: with_weights(func, [1]) if "matmul" in name else func
        for name, func in named_functions(network.mod).items()
    }
    marked = replace(network, mod=replace_functions(network.mod, functions))
    for task in marked.tasks:
        store(database, task, 1e-3)
        store(database, task, 1e-2, parallel(task))
    task = marked.tasks[0]
    sch = sl.Schedule(task.workload)
    block = first_block(sch)
    sch.cache_read(block, 1, "global")
    sch.transform_layout(block, ("read", 1), lambda i, j: (j // 4, i, j % 4))
    store(database, task, 1e-4, sch)
    exe = sl.compile_network(marked, database)
    packed = {one.name: one.packed for one in exe.summary}
    assert packed == {task.name: 1, "matmul1": 0, "transpose": 0}
    taken = [value.shape for value in exe._built.parameters.values()]
    assert sorted(taken) == [(4, 16, 4), (4, 16, 4), (16, 4)], "the originals are not needed"
    assert sum("packed" in name for name in exe._built.parameters) == 2
    assert exe.verify().passed
    assert "fused_matmul_relu (1 packed)" in str(exe)


def test_the_table(network: Network, database: Database) -> None:
    task = network.tasks[0]
    store(database, task, 1e-3)
    store(database, task, 1e-4, parallel(task))
    with pytest.warns(sl.UntunedWarning):
        exe = sl.compile_network(network, database)
    head, first, *_, last = str(exe.summary).splitlines()
    assert head.split() == "share time calls each speed-up record program function".split()
    assert first.split() == "100.0% 200 us 2 100 us 10.0x 2 tuned fused_matmul_relu".split()
    assert last.startswith("at least 200 us for 4 calls, as the records say")
    assert str(exe).startswith(f"network relax for {TARGET.key}\n{head}")
    assert exe.summary[0].name == task.name
    assert len(exe.summary) == 3
    assert [one.name for one in exe.summary[1:]] == [one.name for one in exe.summary][1:]


def test_a_profile_times_what_was_not_measured(network: Network) -> None:
    exe = sl.compile_network(network)
    profile = exe.profile(repeats=2)
    assert profile.complete
    assert {one.name for one in profile} == {one.name for one in exe.summary}
    assert all(one.latency > 0 for one in profile)
    assert "median of 2 calls of the network" in str(profile)


def test_what_is_refused(network: Network, tmp_path: Path) -> None:
    with pytest.raises(sl.NetworkError, match="takes a network, not an IRModule; import it first"):
        sl.compile_network(network.mod)  # type: ignore[arg-type]
    with pytest.raises(sl.TargetError, match="networks run on CPUs"):
        sl.compile_network(network, target=sl.Target("cuda", arch="sm_90"))
    with pytest.raises(sl.DatabaseError, match="no such file"):
        sl.compile_network(network, tmp_path / "absent.db")


def test_a_network_for_another_machine_can_be_compiled_and_not_run(network: Network) -> None:
    other = "x86/avx2" if host.architecture() == "aarch64" else "aarch64/neon"
    exe = sl.compile_network(network, target=other)
    with pytest.raises(sl.TargetError, match=r"aarch64|x86_64"):
        exe(np.zeros((8, 16), np.float32))


def test_when_the_time_is_over_the_rest_gets_hasty_schedules(
    network: Network, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(many, "time", FakeTime())
    caplog.set_level(logging.INFO, "schedlang")
    asked: list[str] = []
    real = many.choose_schedule

    def choose(workload: sl.Workload, *rest: Any, **options: Any) -> Any:
        asked.append(workload.name)
        found = real(workload, *rest, **options)
        many.time.sleep(1e9)  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(many, "choose_schedule", choose)
    exe = sl.compile_network(network, seconds=1e3)
    flops = {task.name: task.weight * task.flops for task in network.tasks}
    assert asked == sorted(asked, key=lambda name: -flops[name])
    origins = {one.name: one.origin for one in exe.summary}
    assert origins[asked[0]] == "default"
    assert {origins[name] for name in asked[1:] if flops[name]} == {"hasty"}
    assert " hasty " in str(exe.summary) and "hasty" in str(exe.summary).splitlines()[-1]
    assert exe.verify().passed
    said = [record.getMessage() for record in caplog.records]
    assert any(f"choosing default schedules, 0 of {len(asked)} functions" in one for one in said)
    assert any("generating code" in one for one in said)
    with pytest.raises(ValueError, match="seconds=0"):
        sl.compile_network(network, seconds=0)


OTHER = sl.Target("cpu", cores=4096, vector_bits=TARGET.vector_bits).key
"""A larger machine of this kind."""


def test_records_of_another_machine_are_told_and_not_taken(
    network: Network, database: Database
) -> None:
    task = network.tasks[0]
    store(database, task, 1e-4, parallel(task), target_key=OTHER)
    with pytest.warns(sl.UntunedWarning, match=f"records of {OTHER}: similar=True fits them"):
        exe = sl.compile_network(network, database)
    assert {one.record for one in exe.summary} == {None}
    assert database.query(target_key=TARGET.key) == []


def test_they_are_raced_where_that_is_asked(network: Network, database: Database) -> None:
    task = network.tasks[0]
    wanted = parallel(task)
    store(database, task, 1e-4, wanted, target_key=OTHER)
    told = f"{task.name}: no record of this program on {TARGET.key}: "
    with pytest.warns(sl.UntunedWarning) as caught:
        exe = sl.compile_network(network, database, similar=True)
    row = next(one for one in exe.summary if one.name == task.name)
    records = database.query(task.workload.key, TARGET.key)
    # Which program is the fastest is a matter of luck; that of the other machine was in the race.
    assert row.record in {one.id for one in records} and row.origin in ("tuned", "unscheduled")
    assert wanted.trace.to_json() in {one.trace_json for one in records}
    assert not math.isnan(row.unscheduled_latency) and exe.verify().passed
    if row.origin == "tuned":
        assert any(str(one.message).startswith(told) for one in caught)
    # The records are there now: nothing is measured, nor told.
    with pytest.warns(sl.UntunedWarning) as caught:
        again = sl.compile_network(network, database, similar=True)
    assert not any("no record of this program" in str(one.message) for one in caught)
    assert {one.name: one.record for one in again.summary}[task.name] == row.record


def test_a_function_that_cannot_be_measured_has_its_default(
    network: Network, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measurer(*_: Any, **__: Any) -> None:
        raise WorkloadError("the unscheduled program fails")

    monkeypatch.setattr(type(TARGET), "measurer", measurer)
    task = network.tasks[0]
    store(database, task, 1e-4, parallel(task), target_key=OTHER)
    with pytest.warns(sl.UntunedWarning, match="nothing can be tried on it: the unscheduled"):
        exe = sl.compile_network(network, database, similar=True)
    assert {one.record for one in exe.summary} == {None} and exe.verify().passed
