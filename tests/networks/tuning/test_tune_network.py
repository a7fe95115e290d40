"""``tune_network``: slices, budgets, interruptions, and what a second call finds."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import schedlang as sl
from schedlang.cli.documents import of_network
from schedlang.database import Database, history, open_database
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.disturbance import Disturbance
from schedlang.measurement.problem import Problem
from schedlang.networks.compiled_network import Summary, TaskSummary
from schedlang.search.tasks import TaskProgress
from schedlang.tvm.program import structural_key
from tests.crash.tuner import Replayed


def mlp(sizes: Sequence[int], name: str = "mlp") -> sl.Network:
    """Dense layers with a ReLU, and a transposition at the end."""
    rng = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, sizes[0]), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for size, following in itertools.pairwise(sizes):
                weight = relax.const(rng.standard_normal((size, following)).astype("float32"))
                value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, weight)))
            output = builder.emit_output(relax.op.permute_dims(value))
        builder.emit_func_output(output)
    return sl.import_network(builder.get(), name=name)


class Table(Replayed):
    """Measures any workload from a table, and notes the order of workloads."""

    def __init__(self, stop_after: float = math.inf, error: BaseException | None = None) -> None:
        super().__init__()
        self.bound: list[str] = []
        self.measured = 0
        self._stop_after = stop_after
        self._error = error or KeyboardInterrupt()

    def bind(self, workload: sl.Workload) -> None:
        self.bound.append(workload.name)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for found in super().measure(candidates):
            if self.measured >= self._stop_after:
                raise self._error
            self.measured += 1
            yield found


def tune(network: Any, measurer: Any = None, **options: Any) -> sl.NetworkResult:
    defaults: dict[str, Any] = {"trials": 24, "progress": False}
    return sl.tune_network(network, measurer=measurer or Table(), **(defaults | options))


def histories(result: sl.NetworkResult) -> dict[str, list[tuple[int, float]]]:
    return {task.name: list(task.history) for task in result.tasks}


def test_every_task_is_tuned_and_the_latency_is_the_weighted_sum() -> None:
    result = tune(mlp((32, 32, 32, 16)))
    assert [(one.name, one.weights) for one in result.tasks] == [
        ("fused_matmul_relu", (2,)),
        ("fused_matmul1_relu1", (1,)),
        ("transpose", (1,)),
    ]
    assert all(one.trials > 0 for one in result.tasks)
    assert sum(one.trials for one in result.tasks) == result.trials == 24
    assert result.tasks[-1].trials <= 2, "a task that computes nothing gets two trials"
    assert result.latency == pytest.approx(
        sum(sum(one.weights) * one.latency for one in result.tasks)
    )
    assert sum(one.share for one in result.tasks) == pytest.approx(1.0)
    assert result.finished == "24 trials"
    assert "fused_matmul1_relu1" in str(result)
    assert str(result).count("24 trials") == 1 and "; 24 trials in " in str(result)


def test_the_last_slice_is_cut_to_the_trials_that_are_left() -> None:
    measurer = Table()
    assert tune(mlp((32, 32, 16)), measurer, trials=13).trials == 13
    assert measurer.measured == 13


def test_networks_share_their_tasks() -> None:
    one, other = mlp((32, 32, 16), "one"), mlp((32, 32, 32, 16), "other")
    result = tune([one, other])
    by_name = {task.name: task for task in result.tasks}
    assert by_name["fused_matmul_relu"].weights == (1, 2)
    assert len(result.tasks) == 3
    difference = result.latencies[1] - result.latencies[0]
    assert difference == pytest.approx(by_name["fused_matmul_relu"].latency)
    assert result.latency == pytest.approx(sum(result.latencies))


def test_the_same_call_again_measures_nothing(tmp_path: Path) -> None:
    network, database = mlp((32, 32, 16)), tmp_path / "net.db"
    first = tune(network, database=database, notes="a network", tags=["mlp"])
    for task in first.tasks:
        assert task.result is not None
        kept = history(database, task.result.history.run.id)
        assert (kept.name, kept.run.notes, kept.run.tags) == (task.name, "a network", ("mlp",))
        assert list(kept.records) == list(task.result.records)
        assert kept.trials.keys() == {record.id for record in task.result.records}
        assert kept.trials == task.result.history.trials
        assert {phase.activity for phase in kept.phases} <= {"start", "search", "finals"}
    measurer = Table()
    again = tune(network, measurer, database=database)
    assert measurer.measured == 0
    assert histories(again) == histories(first)
    assert [one.latency for one in again.tasks] == [one.latency for one in first.tasks]
    assert again.latency == first.latency


def test_more_trials_go_on_from_there(tmp_path: Path) -> None:
    network, database = mlp((32, 32, 16)), tmp_path / "net.db"
    tune(network, database=database, trials=24)
    measurer = Table()
    more = tune(network, measurer, database=database, trials=32)
    assert more.trials == 32
    assert 0 < measurer.measured <= 8


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 11, 22])
def test_an_interrupted_call_ends_with_the_same_records(tmp_path: Path, after: int) -> None:
    network = mlp((32, 32, 16))
    whole = tune(network, database=tmp_path / "whole.db")
    with pytest.warns(sl.InterruptedWarning, match="the same call continues"):
        part = tune(network, Table(after), database=tmp_path / "net.db")
    assert part.interrupted
    assert "interrupted (Ctrl-C)" in part.finished
    measurer = Table()
    ended = tune(network, measurer, database=tmp_path / "net.db")
    assert measurer.measured == 24 - after
    assert histories(ended) == histories(whole)

    def programs(name: str) -> list[str]:
        with open_database(tmp_path / name, read_only=True) as database:
            return sorted(record.program_key for record in database.query())

    assert programs("net.db") == programs("whole.db")


def test_an_interruption_before_anything_was_measured_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        tune(mlp((32, 16)), Table(0))


def test_an_error_carries_the_result_so_far() -> None:
    with pytest.raises(RuntimeError, match="the machine is gone") as caught:
        tune(mlp((32, 32, 16)), Table(10, RuntimeError("the machine is gone")))
    assert caught.value.result.trials == 10  # type: ignore[attr-defined]


class Refusing(Table):
    """The unscheduled program of one task cannot be measured."""

    def __init__(self, name: str = "fused_matmul1_relu1") -> None:
        super().__init__()
        self._name = name

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        if self.bound[-1] == self._name:
            raise sl.WorkloadError("the unscheduled program cannot be the reference: no")
        yield from super().measure(candidates)


def test_a_task_that_cannot_be_tuned_is_named_and_the_others_go_on() -> None:
    result = tune(mlp((32, 32, 16)), Refusing())
    by_name = {one.name: one for one in result.tasks}
    assert "cannot be the reference" in by_name["fused_matmul1_relu1"].failed
    assert by_name["fused_matmul_relu"].trials > 0
    assert "cannot be the reference" in str(result)
    _check_totals(result, missing=1)


def test_a_task_that_fails_later_keeps_the_result_of_the_call_before(tmp_path: Path) -> None:
    network = mlp((32, 32, 16))
    database = tmp_path / "net.db"
    first = tune(network, Refusing("none"), database=database)
    again = tune(network, Refusing(), trials=first.trials + 24, database=database)
    before = {one.name: one.latency for one in first.tasks}
    found = {one.name: one for one in again.tasks}["fused_matmul1_relu1"]
    assert found.failed and found.latency == before[found.name]


def _check_totals(result: sl.NetworkResult, missing: int) -> None:
    """What is known is told, and that it is not all."""
    known = [one for one in result.tasks if not math.isnan(one.latency)]
    assert len(known) == len(result.tasks) - missing and not result.complete
    latency = sum(sum(one.weights) * one.latency for one in known)
    reference = sum(sum(one.weights) * one.reference_latency for one in known)
    assert result.latency == pytest.approx(latency) and latency > 0
    assert result.latencies == (pytest.approx(latency),)
    assert result.speedup == pytest.approx(reference / latency)
    assert sum(one.share for one in known) == pytest.approx(1.0)
    first, _, *rows = str(result).splitlines()
    assert ": at least " in first and f"({missing} of {len(result.tasks)} tasks not" in first
    assert f"{result.speedup:.1f}x faster" in first
    for one in known:
        [row] = [row for row in rows if one.name in row.split()]
        assert f"{one.share:.1%}" in row
    [said] = of_network(result)["networks"]
    assert said["latency"] == pytest.approx(latency)


def test_without_a_file_the_result_has_the_records() -> None:
    network = mlp((32, 32, 16))
    result = tune(network)
    assert isinstance(result.database, Database) and result.database.path is None
    measurer = Table()
    tune(network, measurer, database=result.database)
    assert measurer.measured == 0


def test_with_a_file_the_result_says_where(tmp_path: Path) -> None:
    assert tune(mlp((32, 16)), database=tmp_path / "net.db").database == tmp_path / "net.db"


def test_the_winner_of_a_tasks_finals_is_its_best_program() -> None:
    class Turned(Table):
        """The fastest of the search is the slowest of the finals, but for the unscheduled one."""

        def remeasure(self, candidates: Sequence[Candidate], *_: Any, **__: Any) -> Any:
            order = sorted(one.id for one in candidates if one.id >= 0)
            return [
                Measurement(
                    one.id,
                    sl.Status.OK,
                    tuple(1e-6 * (1 - 0.1 * order.index(one.id) + 1e-4 * k) for k in range(8))
                    if one.id >= 0
                    else (1e-3,) * 8,
                    verified=True,
                )
                for one in candidates
            ]

    measurer = Turned()
    result = tune(mlp((32, 16)), measurer, finals=3)
    turned = 0
    for task in result.tasks:
        assert task.result is not None
        best = task.result.best
        if best.finals is None or best.finals.winner.id < 1:
            continue
        ranked = sorted({one.latency for one in task.result.records if one.ok})
        if best.finals.winner.id == 3:
            assert task.keeps_default, "it takes part on top of the fastest three"
        else:
            assert best.record.latency == ranked[best.finals.winner.id]
        turned += 1
    assert turned


def test_a_search_that_was_made_for_one_workload() -> None:
    network = mlp((32, 16))
    workload = network.tasks[0].workload
    made = sl.search.Random(sl.default_space(), workload)
    with pytest.raises(ValueError, match="this 'random' was made for one workload"):
        tune(network, search=made)


class Last:
    """A user's scheduler: always the last task that can take more."""

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        wanting = [k for k, task in enumerate(progress) if task.open]
        return wanting[-1] if wanting else None


def test_a_scheduler_and_an_objective_of_a_users_own() -> None:
    result = tune(mlp((32, 32, 16)), scheduler=Last())
    assert [one.trials for one in result.tasks] == [0, 22, 2]
    assert math.isnan(result.tasks[0].latency)
    _check_totals(result, missing=1)
    calls: list[int] = []

    def objective(latencies: Sequence[float]) -> float:
        calls.append(len(latencies))
        return sum(latencies)

    tune(mlp((32, 32, 16)), objective=objective)
    assert set(calls) == {1}


def test_patience_ends_a_task_that_gains_nothing() -> None:
    result = tune(mlp((32, 32, 16)), patience=8, trials=400)
    assert result.trials < 400
    assert result.finished == "no task is left that more trials could help"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials=0"),
        ({"scheduler": "greedy"}, "greedy"),
        ({"objective": "speed"}, "speed"),
        ({"limits": 1.0}, "limits"),
        ({"objective": "requirements"}, "limits"),
        ({"search": "best"}, "search='best'"),
        ({"finals": -1}, "finals=-1"),
        ({"seconds": -1.0}, "seconds=-1.0"),
        ({"tolerance": -0.1}, "^tolerance=-0.1; give 0 or more$"),
        (
            {"tolerance": {"y": 0.1}},
            r"^tolerance={'y': 0.1}; give one number, or \(relative, absolute\), for all tasks",
        ),
        ({"tolerance": 0.1}, "^tolerance: the measurer that is given keeps its own settings; give"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(mlp((32, 16)), **options)


def test_what_is_no_network() -> None:
    for wrong, said in (
        ([], "a list without items; give one network or more"),
        ("model", "not the text 'model'; an ONNX file is named by its path"),
        ([mlp((32, 16)), 3], "item 1 of the networks .* not an int; .*import_network"),
    ):
        with pytest.raises(sl.NetworkError, match=said):
            tune(wrong)


def test_a_measurer_that_knows_one_workload_only() -> None:
    with pytest.raises(TypeError, match="bind"):
        tune(mlp((32, 32, 16)), Replayed())


class Scripted(Table):
    """The search measures the default schedule at ``slow`` s, and finals see what it takes."""

    def __init__(self, slow: float, default: float = 5e-4, *, doubt: bool = True) -> None:
        super().__init__()
        self._doubt = doubt
        self.finalists: list[int] = []
        self._slow, self._default = slow, default
        self._defaults: set[str] = set()

    def bind(self, workload: sl.Workload) -> None:
        super().bind(workload)
        self._defaults.add(structural_key(sl.default_schedule(workload).mod))

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for one in candidates:
            default = structural_key(one.module) in self._defaults
            yield timed(
                one.id, self._slow if default else 1e-3, certain=not (default and self._doubt)
            )

    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 5.0
    ) -> list[Measurement]:
        self.finalists.append(len(candidates))
        return [
            timed(
                one.id,
                self._default if structural_key(one.module) in self._defaults else 1e-3,
                certain=True,
            )
            for one in candidates
        ]


def timed(number: int, latency: float, *, certain: bool) -> Measurement:
    """With other work, the program may take a tenth of it."""
    disturbance = Disturbance(8, 0, latency, latency * 1.01)
    if not certain:
        disturbance = Disturbance(0, 8, latency / 10, latency)
    samples = tuple(latency * (1 + 1e-3 * k) for k in range(8))
    return Measurement(number, Status.OK, samples, verified=True, disturbance=disturbance)


@pytest.mark.parametrize("search", ["auto", "random"])
def test_a_default_that_other_work_disturbed_wins_in_the_finals(search: str) -> None:
    """Whether the search measured it or not; the look-up uses it, too."""
    network = mlp((32, 32))
    result = tune(network, Scripted(slow=4e-3), trials=8, finals=2, search=search)
    task = result.tasks[0]
    assert task.keeps_default and "(the default schedule)" in str(result)
    assert task.latency == pytest.approx(5e-4, rel=0.01) and result.trials == 8
    assert task.result is not None and task.result.best.record.latency > 3e-3
    found = sl.best(task.task.workload, "cpu", result.database)
    assert found is not None and found.record.id == task.result.best.record.id
    again = tune(network, Table(), trials=8, finals=2, search=search, database=result.database)
    assert again.trials == 8


def test_a_default_that_is_hardly_slower_is_in_the_finals_beyond_their_number() -> None:
    result = tune(mlp((32, 32)), Scripted(slow=1.003e-3, doubt=False), trials=8, finals=2)
    assert result.tasks[0].keeps_default


def test_a_default_that_is_surely_slower_takes_no_time_of_the_finals() -> None:
    measurer = Scripted(slow=0.5, default=0.5)
    result = tune(mlp((32, 32)), measurer, trials=8, finals=2)
    assert not result.tasks[0].keeps_default
    assert "(the default schedule)" not in str(result).splitlines()[2]
    assert max(measurer.finalists) <= 2


def test_a_task_without_a_trial_runs_with_its_default(clock: Callable[[float], None]) -> None:
    """Only its unscheduled program was measured, so that nobody knows whether that is fast."""

    class Late(Table):
        @property
        def reference_latency(self) -> float:  # type: ignore[override]
            clock(100.0)
            return 1.0

    network = mlp((32, 32))
    result = tune(network, Late(), trials=None, seconds=50.0)
    assert result.trials == 0 and result.tasks[0].latency == 1.0
    with pytest.warns(sl.UntunedWarning):
        summary = sl.compile_network(network, result.database).summary
    assert {one.origin for one in summary.tasks} == {"default"}


@pytest.mark.parametrize("tasks", [3, 5])
@pytest.mark.parametrize("each", [0.3, 1.0])
def test_each_task_has_a_slice_before_another_has_its_third(
    tasks: int, each: float, clock: Callable[[float], None]
) -> None:
    """Where time is short, slices are: nobody goes without as long as one fits for each."""
    order: list[str] = []

    class Slow(Table):
        def bind(self, workload: sl.Workload) -> None:
            super().bind(workload)
            clock(0.2)

        def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
            order.append(self.bound[-1])
            for found in super().measure(candidates):
                clock(each)
                yield found

    network = mlp(tuple(16 * k for k in range(1, tasks + 1)))
    result = tune(network, Slow(), trials=None, seconds=4.0 * tasks)
    assert all(one.trials > 0 for one in result.tasks)
    assert result.seconds <= 4.0 * tasks + 3.0
    firsts = list(dict.fromkeys(order))
    flops = {one.name: sum(one.weights) * one.task.flops for one in result.tasks}
    assert flops[firsts[0]] == max(flops.values()), "that with most arithmetic is first"
    all_had_one = max(map(order.index, firsts))
    assert max(Counter(order[:all_had_one]).values()) <= 2


def test_time_is_kept_and_counted_over_calls(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    class Slow(Table):
        def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
            for found in super().measure(candidates):
                clock(1.0)
                yield found

    network, database = mlp((32, 32, 16)), tmp_path / "net.db"
    measurer = Slow()
    result = tune(network, measurer, database=database, trials=None, seconds=40.0, finals=0)
    assert result.finished == "40 s are over"
    assert 36 <= measurer.measured <= 40
    again = Slow()
    tune(network, again, database=database, trials=None, seconds=40.0, finals=0)
    assert again.measured <= 2
    more = Slow()
    tune(network, more, database=database, trials=None, seconds=60.0, finals=0)
    assert 15 <= more.measured <= 22


@pytest.mark.slow
def test_on_this_machine() -> None:
    network = mlp((32, 32, 16))
    result = sl.tune_network(network, trials=10, finals=2, progress=False)
    assert all(one.latency > 0 for one in result.tasks)
    assert result.speedup >= 1.0
    tuned = sl.apply(network.mod, result.database, strict=True)
    assert network.verify(executable=network.compile(mod=tuned)).passed
    executable = result.compile()
    assert {one.origin for one in executable.summary} <= {"tuned", "unscheduled"}
    assert executable.summary.call > 0 and "one call takes" in str(executable)
    wrong = replace(network, reference=lambda inputs: [np.zeros((16, 4), "float32")])
    with pytest.raises(sl.NetworkError, match="is wrong"):
        replace(result, networks=(wrong,)).compile()
    with pytest.raises(sl.NetworkError, match="say which"):
        replace(result, networks=(network, network)).compile()


@pytest.mark.slow
def test_a_tolerance_holds_for_every_task_in_runs_of_its_own(tmp_path: Path) -> None:
    network, database = mlp((32, 16)), tmp_path / "net.db"

    def found(**given: Any) -> dict[int | None, str | None]:
        """The tolerance that each record says."""
        result = sl.tune_network(network, finals=0, database=database, progress=False, **given)
        records = [record for one in result.tasks if one.result for record in one.result.records]
        assert all(one.result for one in result.tasks) and any(one.verified for one in records)
        return {record.id: record.provenance.get("tolerance") for record in records}

    wide = found(trials=6, tolerance=(0.5, 1.0))
    with sl.measurer("cpu") as kept:
        plain = found(trials=6, measurer=kept)
        longer = found(trials=8, tolerance=(0.5, 1.0), measurer=kept)
        assert kept.problem.tolerance == (0.5, 1.0)  # type: ignore[attr-defined]
    assert set(plain.values()) == {None} and plain.keys().isdisjoint(wide)
    assert set(longer.values()) == {"(0.5, 1.0)"} and longer.keys() > wide.keys()
    assert found(trials=6).keys() == plain.keys()


def test_a_tolerance_of_the_measurer_alone_makes_no_run_of_its_own(tmp_path: Path) -> None:
    """Runs that were stored before ``tune_network`` took one go on."""
    network, database = mlp((32, 32, 16)), tmp_path / "net.db"
    tune(network, database=database)
    measurer = Table()
    measurer.problem = Problem(tolerance=0.5)  # type: ignore[attr-defined]
    tune(network, measurer, database=database)
    assert measurer.measured == 0


def test_callbacks_hear_of_all_tasks_and_a_rule_ends_each_of_them(tmp_path: Path) -> None:
    told: list[sl.Trial] = []
    rule = sl.stop.no_gain(trials=5)
    given = {"database": tmp_path / "net.db", "stop_when": rule, "trials": 400}
    result = tune(mlp((8, 16, 24)), callbacks=[told.append], **given)
    assert result.trials < 400
    assert {trial.workload.name for trial in told} == {task.task.name for task in result.tasks}
    assert "no gain in the last 5 trials" in [task.finished for task in result.tasks]
    for task in result.tasks:
        assert task.trials == max(t.trials for t in told if t.workload == task.task.workload)
    again = Table()
    assert tune(mlp((8, 16, 24)), again, **given).trials == result.trials
    assert again.bound == []


def test_a_summary_says_when_a_call_is_slower_than_its_records_add_up_to() -> None:
    task = TaskSummary("f", ("f",), 2, "tuned", 1e-3, 4e-3, 7, 0)
    summary = Summary((task,), "as the records say")
    assert math.isnan(summary.slowdown) and "one call" not in str(summary)
    assert str(replace(summary, call=2.1e-3)).endswith("one call takes 2.1 ms")
    slower = replace(summary, call=3e-3)
    assert slower.slowdown == pytest.approx(1.5)
    assert "one call takes 3 ms, 1.5x what its functions add up to" in str(slower)
    unknown = replace(slower, tasks=(replace(task, latency=math.nan),))
    assert str(unknown).endswith("one call takes 3 ms")
