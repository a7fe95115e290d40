"""Where a kernel comes from, and that nothing tunes by surprise."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.just_in_time import kernel_choices as choices
from schedlang.targets.errors import BuildError
from tests.just_in_time.templates import dense

A = np.random.default_rng(0).random((64, 64), np.float32)
RECORD = r"record (\d+) of {} \(tuned, verified\), [\d.]+ [mun]s"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database with four trials of the product of 64 rows, 64 wide."""
    path = tmp_path_factory.mktemp("tuned") / "tune.db"
    sl.tune(dense(64, 64), trials=4, database=path, progress=False)
    yield path


@pytest.fixture
def no_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it tunes")

    monkeypatch.setattr(choices, "tune", refuse)


class Shapes:
    """Kernels for some shapes; it notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def find(self, extents: Mapping[str, Any]) -> Any:
        self.asked.append(dict(extents))

        def kernel(a: Any, b: Any, out: Any) -> None:
            out[...] = -1

        return kernel if extents["rows"] >= 32 else None


def test_a_record_comes_first(tuned: Path, no_tuning: None) -> None:
    call = sl.jit(dense, database=tuned, trials=4, shapes=Shapes())
    np.testing.assert_allclose(call(A, A, width=64), A @ A, rtol=1e-4)
    found = sl.best(dense(64, 64), "cpu", tuned)
    assert found is not None
    said = re.fullmatch(RECORD.format(re.escape(str(tuned))), call.explain(rows=64, width=64))
    assert said is not None and int(said[1]) == found.record.id
    assert said[0] in re.sub(" {2,}", ", ", repr(call))


def test_then_a_set_of_shapes(tuned: Path, no_tuning: None) -> None:
    shapes = Shapes()
    call = sl.jit(dense, database=tuned, shapes=shapes)
    assert call.explain(rows=48, width=64) == "a kernel of the Shapes given as shapes="
    assert (call(A[:48], A, width=64) == -1).all()
    assert call.explain(rows=48, width=64) == "a kernel of the Shapes given as shapes="
    np.testing.assert_allclose(call(A[:8], A, width=64), A[:8] @ A, rtol=1e-4)
    assert shapes.asked[-1] == {"rows": 8, "width": 64}


def test_without_a_budget_nothing_is_tuned_or_measured(
    tuned: Path, tmp_path: Path, no_tuning: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it measures")

    monkeypatch.setattr("schedlang.targets.cpu.target.CPUTarget.measurer", refuse)
    monkeypatch.setattr("schedlang.tuning.kernels.ladder.race", refuse)
    missing = tmp_path / "missing.db"
    with_file = f"default schedule, not measured; {tuned} has no record of it"
    without = f"default schedule, not measured; there is no file {missing}"
    for database, said in ((None, choices.DEFAULT), (tuned, with_file), (missing, without)):
        call = sl.jit(dense, database=database)
        assert call.explain(rows=32, width=64) == said
        np.testing.assert_allclose(call(A[:32], A, width=64), A[:32] @ A, rtol=1e-4)
        assert call.explain(rows=32, width=64) == said
    assert not missing.exists()


@pytest.mark.slow
def test_a_budget_tunes_once_and_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls = tmp_path / "tune.db", []

    def counted(workload: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(options["trials"])
        return sl.tune(workload, *arguments, **options)

    monkeypatch.setattr(choices, "tune", counted)
    call = sl.jit(dense, database=path, trials=4)
    assert call.explain(rows=64, width=64) == ("no kernel yet: the first call tunes it (trials=4)")
    assert calls == [] and not path.exists()
    for _ in range(3):
        np.testing.assert_allclose(call(A, A, width=64), A @ A, rtol=1e-4)
    assert calls == [4]
    with sl.open_database(path) as database:
        assert len([one for one in database.query() if not one.unscheduled]) == 4
    said = call.explain(rows=64, width=64)
    assert re.fullmatch(RECORD.format(re.escape(str(path))), said)
    other = sl.jit(dense, database=path, trials=4)
    other(A, A, width=64)
    assert calls == [4] and other.explain(rows=64, width=64) == said


def test_a_choice_is_kept_until_refresh(tuned: Path, tmp_path: Path, no_tuning: None) -> None:
    path = tmp_path / "later.db"
    call = sl.jit(dense, database=path)
    before = call.kernel(rows=64, width=64)
    path.write_bytes(tuned.read_bytes())
    assert call.kernel(rows=64, width=64) is before
    assert call.explain(rows=64, width=64).startswith("default schedule")
    call.refresh()
    assert call.explain(rows=64, width=64).startswith("record ")
    assert call.kernel(rows=64, width=64) is not before
    np.testing.assert_allclose(call(A, A, width=64), A @ A, rtol=1e-4)


def test_another_process_that_tunes_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise sl.RunInUseError("process 1 already executes this run")

    monkeypatch.setattr(choices, "tune", busy)
    call = sl.jit(dense, database=tmp_path / "tune.db", seconds=1.5)
    assert "(seconds=1.5)" in call.explain(rows=8)
    call.kernel(rows=8)
    assert "another process is tuning it: refresh() takes its result" in call.explain(rows=8)


def test_ctrl_c_during_tuning_ends_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        interrupted = True

    monkeypatch.setattr(choices, "tune", lambda *_, **__: Interrupted())
    call = sl.jit(dense, database=tmp_path / "tune.db", trials=4)
    with pytest.raises(KeyboardInterrupt):
        call.kernel(rows=8)
    assert "no kernel yet" in call.explain(rows=8)


def test_a_program_that_cannot_be_compiled_gives_way(
    tuned: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    build, tried = choices.KernelCache.build, []

    def failing(self: Any, workload: Any, key: str, mod: Any) -> Any:
        tried.append(key)
        if len(tried) < 3:
            raise BuildError("no registers are left")
        return build(self, workload, key, mod)

    monkeypatch.setattr(choices.KernelCache, "build", failing)
    call = sl.jit(dense, database=tuned)
    np.testing.assert_allclose(call(A, A, width=64), A @ A, rtol=1e-4)
    assert tried[-1] == dense(64, 64).key
    assert call.explain(rows=64, width=64).startswith("the unscheduled program; nothing else")
    assert caplog.text.count("cannot be compiled: no registers are left") == 2


def test_a_database_object_will_do(tuned: Path, no_tuning: None) -> None:
    with sl.open_database(tuned) as database, warnings.catch_warnings():
        warnings.simplefilter("error")
        call = sl.jit(dense, database=database)
        np.testing.assert_allclose(call(A, A, width=64), A @ A, rtol=1e-4)
        assert call.explain(rows=64, width=64).startswith("record ")
