"""What ``tune`` takes, and how it refuses what it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tvm import te

import schedlang as sl
from schedlang.search import (
    CoordinateDescent,
    ExploreExploit,
    Outcome,
    Proposal,
    Random,
    Rejection,
    Strategy,
)
from schedlang.targets import LocalCPU

N = 32


def tensors() -> list[te.Tensor]:
    a = te.placeholder((N, N), name="A")
    return [a, te.compute((N, N), lambda i, j: a[i, j] + 1.0, name="B")]


@sl.module
def tile_rows(sch: sl.Schedule, block: sl.BlockRV) -> None:
    i = sch.get_loops(block)[0]
    sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=None, name="rows"))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (tensors, "B"),
        (lambda: te.create_prim_func(tensors()), "main"),
        (lambda: sl.workloads.from_te(tensors(), name="mine").mod, "main"),
    ],
    ids=["tensors", "PrimFunc", "IRModule"],
)
def test_what_makes_a_workload_is_taken(make: Callable[[], Any], name: str) -> None:
    result = sl.tune(make(), "cpu", space=sl.Space([tile_rows]), trials=1, finals=0)
    assert result.workload == sl.workloads.from_te(tensors())
    assert result.workload.name == name
    [record] = result.records
    assert result.best.record.verified and record.verified
    assert sl.Trace.from_json(record.trace_json).decisions.keys() == {"rows"}


class Untouched:
    """A measurer that must not be asked for anything."""

    reference_latency = 1.0

    def measure(self, candidates: Sequence[sl.Candidate]) -> list[sl.Measurement]:
        raise AssertionError("something is measured")


class Minimal(Strategy):
    """A strategy of a user's that says what it was made for, and derives from no base of ours."""

    name = "minimal"

    def __init__(self, space: sl.Space, workload: sl.Workload, seed: int) -> None:
        self.workload = workload

    def ask(self, n: int) -> list[Proposal]:
        raise AssertionError("it is asked")

    def tell(self, outcomes: Sequence[Outcome]) -> None: ...

    @property
    def finished(self) -> str | None:
        return None

    @property
    def rejections(self) -> Sequence[Rejection]:
        return []


class Listening(Random):
    """Random search that remembers what it was told."""

    name = "listening"

    def __init__(self, space: sl.Space, workload: sl.Workload) -> None:
        super().__init__(space, workload, seed=0)
        self.proposed: list[Proposal] = []
        self.told: list[Outcome] = []

    def ask(self, n: int) -> list[Proposal]:
        asked = super().ask(min(n, 4))
        self.proposed += asked
        return asked

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        super().tell(outcomes)
        self.told += outcomes


def test_a_strategy_of_ones_own_is_told_every_outcome() -> None:
    """``tile_rows`` has six programs: the search ends before the trials are used up."""
    workload = sl.workloads.from_te(tensors())
    search = Listening(sl.Space([tile_rows]), workload)
    result = sl.tune(workload, trials=50, search=search, finals=0)
    assert len(search.proposed) == len(result.records) == 6
    assert sorted(outcome.id for outcome in search.told) == [p.id for p in search.proposed]
    assert [outcome.measurement.samples for outcome in search.told] == [
        record.samples for record in result.records
    ]
    by_id = {proposal.id: proposal.trace.to_json() for proposal in search.proposed}
    assert [by_id[outcome.id] for outcome in search.told] == [r.trace_json for r in result.records]
    assert {record.search for record in result.records} == {"listening"}
    assert result.finished == search.finished == "all 6 programs proposed"


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"workload": "matmul"}, sl.WorkloadError, r"expected a Workload.*from_script\(text\)"),
    ({"target": "tpu"}, sl.TargetError, "unknown target 'tpu'; known: cpu"),
    ({"target": "llvm"}, sl.TargetError, "unknown target 'llvm'; did you mean 'cpu'\\?"),
    (
        {"target": "llvm -mcpu=znver4"},
        sl.TargetError,
        r"did you mean 'cpu', with options as arguments: Target\('cpu', cores=4, mcpu=...\)\?",
    ),
    ({"target": "Native"}, sl.TargetError, "did you mean 'cpu'\\?"),
    ({"target": 3}, sl.TargetError, r"3 \(int\) is not a target"),
    ({"space": "cpu"}, sl.SpaceError, "space is a Space or a module, not str"),
    ({"space": [tile_rows]}, sl.SpaceError, "space is a Space or a module, not list"),
    ({"trials": 0}, ValueError, "trials=0; give a whole number, 1 or more"),
    ({"trials": -1}, ValueError, "trials=-1; give a whole number, 1 or more"),
    ({"trials": True}, ValueError, "trials=True; give a whole number, 1 or more"),
    ({"trials": 2.5}, ValueError, "trials=2.5; give a whole number, 1 or more"),
    ({"seed": -1}, ValueError, "seed=-1; give a whole number, 0 or more"),
    ({"seed": None}, ValueError, "seed=None; give a whole number, 0 or more"),
    ({"finals": -1}, ValueError, "finals=-1; give a whole number, 0 or more"),
    ({"search": "genetic"}, ValueError, "search='genetic'; known: auto, random, grid, "),
    ({"search": 7}, ValueError, "or give a Strategy"),
    ({"verify": "some"}, ValueError, "^verify='some'; choose True, False or 'all'$"),
    ({"verify": "al"}, ValueError, "verify='al'; .*; did you mean 'all'\\?"),
    ({"verify": "true"}, ValueError, "verify='true'; .*; did you mean True\\?"),
    ({"verify": 1}, ValueError, "verify=1; choose True, False or 'all'$"),
    ({"verify": None}, ValueError, "verify=None; choose"),
    ({"database": 3}, TypeError, "a database is a path, a Database or None, not a int"),
    ({"database": "."}, sl.DatabaseError, "."),
]


@pytest.mark.parametrize(
    ("given", "error", "message"), REFUSED, ids=[str(given) for given, _, _ in REFUSED]
)
def test_wrong_arguments_are_refused(
    given: dict[str, Any],
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    """At once: nothing is measured, and no file is made."""
    arguments: dict[str, Any] = {"workload": tensors(), "database": "tune.db", "trials": 1} | given
    with pytest.raises(error, match=message):
        sl.tune(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_class_of_strategies_is_made_for_the_run() -> None:
    made: list[tuple[sl.Space, sl.Workload, int]] = []

    class Noted(Random):
        def __init__(self, space: sl.Space, workload: sl.Workload, seed: int) -> None:
            made.append((space, workload, seed))
            super().__init__(space, workload, seed)

    space = sl.Space([tile_rows])
    result = sl.tune(tensors(), space=space, trials=1, seed=3, search=Noted, finals=0)
    assert made == [(space, result.workload, 3)]
    assert len(result.records) == 1


OTHER = sl.workloads.matmul(16, 16, 16)


@pytest.mark.parametrize(
    "make",
    [Random, CoordinateDescent, ExploreExploit, Minimal],
    ids=lambda make: make.__name__,
)
def test_a_strategy_of_another_workload_is_refused(make: Any) -> None:
    made = make(sl.Space([tile_rows]), OTHER, 0)
    with pytest.raises(ValueError) as info:
        sl.tune(tensors(), trials=1, search=made, measurer=Untouched())
    assert "was made for the workload sl.workloads.matmul(n=16, m=16, k=16" in str(info.value)
    assert "the call tunes B(A: float32[32, 32], B: float32[32, 32])" in str(info.value)
    with pytest.raises(ValueError, match="was made for the workload sl.workloads.matmul"):
        sl.tune(tensors(), trials=1, search=lambda *given: made, measurer=Untouched())


def test_a_strategy_of_an_equal_workload_and_space_is_taken() -> None:
    made = Random(sl.Space([tile_rows]), sl.workloads.from_te(tensors()), 0)
    result = sl.tune(tensors(), space=tile_rows, trials=1, search=made, finals=0)
    assert len(result.records) == 1


def test_a_strategy_of_another_space_is_refused() -> None:
    made = Random(sl.Space([tile_rows]), sl.workloads.from_te(tensors()), 0)
    with pytest.raises(
        ValueError, match="for a space of tile_rows, and the call has one of .*tili"
    ):
        sl.tune(
            *(tensors(), "cpu"),
            space=sl.default_space(),
            trials=1,
            search=made,
            measurer=Untouched(),
        )


def test_the_space_of_a_strategy_is_the_default() -> None:
    """It counts for the identity of the run, and where the result says what modules did."""

    @sl.module
    def never(sch: sl.Schedule, block: sl.BlockRV) -> None:
        raise sl.NotApplicable("on principle")

    workload = sl.workloads.from_te(tensors())
    made = Random(sl.Space([never]), workload, 0)
    result = sl.tune(workload, trials=4, search=made, finals=0)
    assert "no module did anything: never at B: does not apply" in result.finished


def test_a_used_strategy_is_refused() -> None:
    workload = sl.workloads.from_te(tensors())
    made = Random(sl.Space([tile_rows]), workload, 0)
    sl.tune(workload, trials=1, search=made, finals=0)
    with pytest.raises(ValueError, match="a run has used this 'random' already"):
        sl.tune(workload, trials=1, search=made, measurer=Untouched())
    fresh = Random(sl.Space([tile_rows]), workload, 0)
    fresh.load(made.save())
    assert len(sl.tune(workload, trials=1, search=fresh, finals=0).records) == 1


class Nameless(Random):
    name = None  # type: ignore[assignment]


class AskedForAll(Random):
    name = "asked for all"

    def ask(self) -> list[Proposal]:  # type: ignore[override]
        return super().ask(1)


class FinishedMethod(Random):
    name = "finished"

    def finished(self) -> None:  # type: ignore[override]
        return None


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (Nameless, r"search: Nameless.name is None; give the class a name"),
        (AskedForAll, r"search: AskedForAll.ask\(\).* cannot be called as ask\(n\): too many"),
        (FinishedMethod, r"search: FinishedMethod.finished is a method; make it a property"),
    ],
)
def test_a_strategy_that_cannot_be_used_is_refused(search: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sl.tune(tensors(), space=tile_rows, trials=1, search=search, measurer=Untouched())


def test_what_only_looks_like_a_strategy_is_refused() -> None:
    class Alike:
        def ask(self, n: int) -> list[Proposal]:
            return []

    with pytest.raises(ValueError, match="whose class derives from schedlang.search.Strategy"):
        sl.tune(tensors(), trials=1, search=Alike())  # type: ignore[arg-type]


def test_what_makes_no_strategy_is_refused() -> None:
    with pytest.raises(ValueError, match="made a Space, not a Strategy"):
        sl.tune(tensors(), trials=1, search=lambda space, workload, seed: space)


class Complete(Untouched):
    """A measurer with every member, of which a test spoils one."""

    key = "complete"
    deadline = math.inf
    best_so_far: float | None = None

    def remeasure(
        self, candidates: Sequence[sl.Candidate], rounds: int = 3, budget_seconds: float = 1.0
    ) -> list[sl.Measurement]:
        raise AssertionError("something is measured")

    def bind(self, workload: sl.Workload) -> None:
        raise AssertionError("it is checked before it is bound")

    def close(self) -> None: ...


def positional(self: object, candidates: object) -> list[sl.Measurement]:
    return []


async def later(self: object, candidates: object) -> None: ...


@pytest.mark.parametrize("base", [Complete, type("Sub", (Complete, sl.Measurer), {})])
@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("measure", None, r"\.measure is not a method but None; it is called as measure\(cand"),
        ("measure", lambda self: [], r"\.measure\(\) cannot be called as measure\(candidates\): t"),
        ("measure", later, r"\.measure is asynchronous; it is called as measure\(candidates\)"),
        ("remeasure", 3, r"\.remeasure is not a method but 3; it is called as remeasure\(candidat"),
        ("remeasure", positional, r"\.remeasure\(candidates\) cannot be called as remeasure\("),
        ("bind", lambda self: None, r"\.bind\(\) cannot be called as bind\(workload\): too many"),
        ("close", True, r"\.close is not a method but True; it is called as close\(\)"),
        ("key", lambda self: "mine", r"\.key is a method; make it a property \(@property\) or a"),
        ("reference_latency", lambda self: 1.0, r"\.reference_latency is a method; make it a prop"),
        ("deadline", property(lambda self: math.inf), r"\.deadline cannot be set \(.*tune sets it"),
    ],
)
def test_a_measurer_in_part_is_refused(base: type, member: str, value: Any, message: str) -> None:
    """Before anything is measured, and before it is bound."""
    spoiled = type("Spoiled", (base,), {member: value})()
    with pytest.raises(TypeError, match=f"measurer: Spoiled{message}"):
        sl.tune(tensors(), space=tile_rows, trials=1, measurer=spoiled)


def test_a_measurer_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="measurer=Complete is a class; give an instance of it"):
        sl.tune(tensors(), trials=1, measurer=Complete)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"has no method measure\(candidates\)"):
        sl.tune(tensors(), trials=1, measurer=object())  # type: ignore[arg-type]


def test_what_is_no_measurement_is_named() -> None:
    class Numbers:
        reference_latency = 1.0

        def measure(self, candidates: Sequence[sl.Candidate]) -> list[float]:
            return [1.0 for _ in candidates]

    with pytest.raises(TypeError, match=r"Numbers.measure gave 1.0, which is not a schedlang.Mea"):
        sl.tune(tensors(), space=tile_rows, trials=1, measurer=Numbers())  # type: ignore[arg-type]


def test_a_given_measurer_is_used_and_stays_open() -> None:
    workload = sl.workloads.from_te(tensors())
    with LocalCPU(workload, "cpu", verify="all") as measurer:
        result = sl.tune(workload, space=tile_rows, trials=1, measurer=measurer, finals=0)
        assert result.reference_latency == measurer.reference_latency
        [again] = measurer.measure([sl.Candidate(0, result.best.schedule.mod)])
        assert again.ok


def test_how_to_verify_is_checked_with_a_measurer_too() -> None:
    workload = sl.workloads.from_te(tensors())
    with LocalCPU(workload, "cpu") as measurer:
        with pytest.raises(ValueError, match="verify='al'; choose True, False or 'all'"):
            sl.tune(workload, trials=1, measurer=measurer, verify="al")  # type: ignore[arg-type]


def test_a_wrong_value_is_no_error_of_the_target() -> None:
    with pytest.raises(ValueError) as info:
        sl.tune(tensors(), trials=1, verify="al")  # type: ignore[arg-type]
    assert not isinstance(info.value, sl.SchedlangError)
