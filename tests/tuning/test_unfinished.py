"""Ctrl-C and errors in the middle of a run: what was measured until then is not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database, Record
from schedlang.database.run import Run
from schedlang.measurement import Candidate, Measurement
from schedlang.search import Proposal, Random
from tests.crash.tuner import Replayed

WORKLOAD = sl.workloads.get("GMM", n=32, m=32, k=32)
TRIALS = 12
BATCH = 4


class Died(RuntimeError):
    """An error that is not of schedlang."""


class Failing(Replayed):
    """Raises ``error`` after some measurements, or in the finals, or for the reference."""

    def __init__(
        self, error: BaseException | None = None, *, after: int | None = None, finals: bool = False
    ) -> None:
        super().__init__()
        self.error = error or Died("it died")
        self.count = 0
        self._after = after
        self._finals = finals

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for measurement in super().measure(candidates):
            if self.count == self._after:
                raise self.error
            self.count += 1
            yield measurement

    def remeasure(self, *args: Any, **options: Any) -> list[Measurement]:
        if self._finals:
            raise self.error
        return super().remeasure(*args, **options)


class NoReference(Failing):
    @property
    def reference_latency(self) -> float:  # type: ignore[override]
        raise self.error


class Full(Database):
    """A disk that is full after some records, or when the run's end is to be stored."""

    def __init__(self, *, after: int | None = None) -> None:
        super().__init__()
        self._after = after

    def append(self, records: Iterable[Record]) -> list[Record]:
        if self._after is not None and self.count() >= self._after:
            raise sl.DatabaseError("the disk is full")
        return super().append(records)

    def update_run(self, run: Run) -> None:
        if self._after is None and run.outcome:
            raise sl.DatabaseError("the disk is full")
        super().update_run(run)


class Failed(Random):
    """A search that fails in its second batch, as one does whose module raises."""

    name = "failed"
    asked = 0

    def ask(self, n: int) -> list[Proposal]:
        self.asked += 1
        if self.asked > 1:
            raise Died("a module raised")
        return super().ask(n)


def tune(measurer: Any = None, **options: Any) -> sl.TuneResult:
    call: dict[str, Any] = {"trials": TRIALS, "search": "random", "batch": BATCH} | options
    return sl.tune(WORKLOAD, measurer=measurer or Replayed(), progress=False, **call)


FATAL: dict[str, tuple[Callable[[], dict[str, Any]], type[Exception], int]] = {
    "the measurer died": (lambda: {"measurer": Failing(after=5)}, Died, 5),
    "it died in the finals": (lambda: {"measurer": Failing(finals=True)}, Died, TRIALS),
    "no reference": (lambda: {"measurer": NoReference()}, Died, BATCH),
    # The unscheduled program is stored too. The measurement that could not be stored is there.
    "the disk was full": (lambda: {"database": Full(after=6)}, sl.DatabaseError, 6),
    "it was full at the end": (lambda: {"database": Full()}, sl.DatabaseError, TRIALS),
    "a module raised": (lambda: {"search": Failed}, Died, BATCH),
}


@pytest.mark.parametrize("what", FATAL)
def test_an_error_carries_the_result_so_far(what: str) -> None:
    make, kind, count = FATAL[what]
    with pytest.raises(kind) as info:
        tune(**make())
    result = info.value.result  # type: ignore[attr-defined]
    expected = tune(trials=count, finals=0).records
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected]
    assert result.best.record.ok and result.best.trace.replay().mod is not None
    assert not result.interrupted
    assert result.finished == f"ended by {kind.__name__}: {info.value}"
    assert f"{count} candidates of GMM were measured before" in info.value.__notes__[0]
    assert str(result).splitlines()[-1].endswith(result.finished)


def test_an_error_of_schedlang_elsewhere_has_no_result() -> None:
    with pytest.raises(sl.SpaceError) as info:
        tune(space="cpu")
    assert info.value.result is None


def test_a_search_that_cannot_say_more_does_not_hide_the_error() -> None:
    class Broken(Failed):
        @property
        def rejections(self) -> Any:
            if self.asked > 1:
                raise ValueError("it is broken")
            return super().rejections

    with pytest.raises(Died, match="a module raised"):
        tune(search=Broken)


# -- Ctrl-C --------------------------------------------------------------------------------------


@pytest.mark.parametrize("finals", [False, True], ids=["in the search", "in the finals"])
def test_ctrl_c_returns_the_result_so_far(finals: bool) -> None:
    measurer = Failing(KeyboardInterrupt(), after=None if finals else 5, finals=finals)
    with pytest.warns(sl.InterruptedWarning) as warned:
        result = tune(measurer)
    count = TRIALS if finals else 5
    assert len(result.records) == count
    assert result.interrupted
    assert result.best.finals is None and result.best.record in result.records
    assert result.reference_latency == result.unscheduled.latency  # type: ignore[union-attr]
    assert f"{count} of {TRIALS} trials; nothing is stored: result.save" in result.finished
    assert "result.save" in str(warned[0].message)
    assert warned[0].filename == __file__


@pytest.mark.filterwarnings("error::schedlang.InterruptedWarning")
def test_where_warnings_are_errors_the_warning_carries_the_result() -> None:
    with pytest.raises(sl.InterruptedWarning) as info:
        tune(Failing(KeyboardInterrupt(), after=5))
    result = info.value.result
    assert result.interrupted and len(result.records) == 5


def test_what_was_saved_is_not_measured_again(tmp_path: Path) -> None:
    with pytest.warns(sl.InterruptedWarning):
        result = tune(Failing(KeyboardInterrupt(), after=5))
    path = tmp_path / "tune.db"
    assert result.save(path) == 5 + 1, "the unscheduled program has a record too"
    assert result.save(path) == 0
    found = sl.best(WORKLOAD, "cpu", path)
    assert found is not None and found.trace == result.best.trace
    measurer = Failing()
    again = tune(measurer, database=path)
    assert (again.earlier, measurer.count) == (5, TRIALS - 5)


def test_with_a_database_the_same_call_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with pytest.warns(sl.InterruptedWarning):
        result = tune(Failing(KeyboardInterrupt(), finals=True), database=path)
    assert result.finished.endswith(f"{TRIALS} of {TRIALS} trials; the same call continues the run")
    measurer = Failing()
    again = tune(measurer, database=path)
    assert measurer.count == 0 and not again.interrupted
    assert again.best.finals is not None, "they were left out before"
    # What belongs to a run of this file is known there.
    assert again.save(path) == 0


def test_ctrl_c_while_a_record_is_stored_keeps_it() -> None:
    class Pressed(Database):
        def append(self, records: Iterable[Record]) -> list[Record]:
            super().append(records)
            raise KeyboardInterrupt

    with pytest.warns(sl.InterruptedWarning):
        assert len(tune(database=Pressed()).records) == 1


def test_ctrl_c_before_anything_was_measured_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        tune(Failing(KeyboardInterrupt(), after=0))


def test_a_second_ctrl_c_is_raised() -> None:
    class Impatient(Random):
        """It is pressed again while the result is made."""

        name = "impatient"
        pressed = False

        @property
        def rejections(self) -> Any:
            if self.pressed:
                raise KeyboardInterrupt
            return super().rejections

    class Pressed(Failing):
        def remeasure(self, *args: Any, **options: Any) -> list[Measurement]:
            Impatient.pressed = True
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(Pressed(), search=Impatient)
