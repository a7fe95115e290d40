"""Callbacks: what they are told, and that their errors cost nothing."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.testing.spaces import ORDINARY, small_workload
from tests.tuning.scripted import Scripted

LATENCIES = [5e-3, 3e-3, None, 4e-3, 1e-3]


class Heard(sl.Callback):
    """Keeps what it is told; raises or presses Ctrl-C after some trials."""

    def __init__(self, error: BaseException | None = None, after: int = 0) -> None:
        self.trials: list[sl.Trial] = []
        self.bests: list[float] = []
        self._error, self._after = error, after

    def on_trial(self, trial: sl.Trial) -> None:
        self.trials.append(trial)
        if self._error is not None and len(self.trials) > self._after:
            raise self._error

    def on_best(self, trial: sl.Trial) -> None:
        self.bests.append(trial.record.latency)


def tune(*callbacks: Any, **given: Any) -> sl.TuneResult:
    arguments = {"space": ORDINARY, "search": "random", "trials": len(LATENCIES), **given}
    measurer = Scripted(LATENCIES, reference=1.0)
    return sl.tune(small_workload(), measurer=measurer, callbacks=callbacks, **arguments)


def test_each_trial_and_each_best_is_told() -> None:
    heard, counts = Heard(), []
    result = tune(heard, lambda trial: counts.append(trial.trials))
    assert [trial.record for trial in heard.trials] == result.records
    assert counts == [1, 2, 3, 4, 5]
    assert heard.bests == pytest.approx([5e-3, 3e-3, 1e-3], rel=0.01)
    assert [gain.trials for gain in heard.trials[-1].gains] == [1, 2, 5]
    assert heard.trials[-1].best_before(trials=1) == heard.trials[1].best
    assert heard.trials[0].workload == result.workload and not heard.trials[0].reused


def test_an_object_needs_one_method_only() -> None:
    class Bests:
        found = 0

        def on_best(self, trial: sl.Trial) -> None:
            self.found += 1

    bests = Bests()
    tune(bests)
    assert bests.found == 3


def test_a_callback_that_raises_is_left_alone_and_nothing_is_lost() -> None:
    failing, other = Heard(ZeroDivisionError("no"), after=1), Heard()
    said = (
        r"the callback Heard.on_trial raised ZeroDivisionError: no \(test_callbacks.py, line \d+\) "
        "after 2 trials of .* no result is lost"
    )
    with pytest.warns(sl.CallbackWarning, match=said) as caught:
        result = tune(failing, other)
    assert len(caught) == 1 and isinstance(caught[0].message.error, ZeroDivisionError)
    assert len(failing.trials) == 2 and len(failing.bests) == 3
    assert len(other.trials) == len(result.records) == len(LATENCIES)


def test_each_run_warns_of_a_callback_that_raises() -> None:
    """Python leaves out a warning that it has shown: in a notebook, that of the same cell."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            tune(Heard(ZeroDivisionError("no"), after=1))
    assert [one.filename for one in caught] == [__file__] * 2


def test_where_warnings_are_errors_the_error_has_the_result() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sl.CallbackWarning) as caught:
            tune(Heard(ZeroDivisionError(), after=2))
    assert len(caught.value.result.records) == 3


def test_ctrl_c_in_a_callback_ends_the_run_with_its_result() -> None:
    with pytest.warns(sl.InterruptedWarning):
        result = tune(Heard(KeyboardInterrupt(), after=2))
    assert result.interrupted and len(result.records) == 3


def test_a_run_that_goes_on_tells_only_what_is_new(tmp_path: Path) -> None:
    given = {"database": tmp_path / "tune.db"}
    with pytest.warns(sl.InterruptedWarning):
        tune(Heard(KeyboardInterrupt(), after=1), **given)
    heard = Heard()
    tune(heard, **given)
    assert [trial.trials for trial in heard.trials] == [3, 4, 5]
    assert [gain.trials for gain in heard.trials[-1].gains] == [1, 2, 5]


def test_measurements_of_another_run_are_trials_that_were_reused(tmp_path: Path) -> None:
    given = {"database": tmp_path / "tune.db", "transfer": False}
    tune(**given)
    heard = Heard()
    tune(heard, verify="all", **given)
    assert len(heard.trials) == 5 and all(trial.reused for trial in heard.trials)


@pytest.mark.parametrize("wrong", [3, Heard, "print"])
def test_what_is_no_callback_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="is no callback"):
        tune(wrong)
    with pytest.raises(TypeError, match="give a list of callbacks"):
        sl.tune(small_workload(), callbacks=wrong)  # type: ignore[arg-type]
