"""Stop rules: when they hold, what the result says, and what the same call then does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import te

import schedlang as sl
from schedlang.measurement.disturbance import Disturbance
from schedlang.targets.roofline import bytes_of, peak_of
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.leaderboard import Gain, Trial
from tests.tuning.fake_time import FakeTime
from tests.tuning.scripted import Scripted
from tests.tuning.test_budgets import Pretends

TRIALS = 40


def falling(gains: dict[int, float]) -> list[float]:
    """Latencies in seconds of candidates: 1 until the first gain, each slower than the best."""
    best, latencies = 0.5, []
    for number in range(TRIALS):
        latencies.append(gains.get(number, 1.0) if number in gains else 2 * best)
        best = min(best, latencies[-1])
    return latencies


def tune(stop_when: Any, latencies: list[float | None], **given: Any) -> sl.TuneResult:
    measurer = given.pop("measurer", None) or Scripted(latencies, reference=9.0)
    arguments = {"space": ORDINARY, "search": "random", "trials": TRIALS, **given}
    return sl.tune(small_workload(), measurer=measurer, stop_when=stop_when, **arguments)


def test_no_gain_in_some_trials() -> None:
    latencies = falling({0: 0.9, 4: 0.5, 9: 0.4})
    result = tune(sl.stop.no_gain(trials=6), latencies)
    assert len(result.records) == 16
    assert result.finished == "no gain in the last 6 trials"
    assert "ended       no gain in the last 6 trials" in str(result)
    assert result.best.finals is not None


def test_small_gains_do_not_count_where_that_is_asked() -> None:
    latencies = falling({0: 0.5, 5: 0.499, 9: 0.498, 13: 0.497})
    rule = sl.stop.no_gain(trials=10, least=0.01)
    result = tune(rule, latencies)
    assert len(result.records) == 11
    assert result.finished == "no gain of 1% or more in the last 10 trials"
    assert len(tune(sl.stop.no_gain(trials=10), latencies).records) == 24


class Busy(Scripted):
    """Other work leaves open what the candidates with these ids take: 0.3 to 2 seconds."""

    doubtful: frozenset[int] = frozenset()

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for one in super().measure(candidates):
            unsure = one.id in self.doubtful
            yield replace(one, disturbance=Disturbance(0, 3, 0.3, 2.0)) if unsure else one


@pytest.mark.parametrize(
    ("doubtful", "trials"),
    [(set(), 11), ({8}, 15), ({8, 12}, 17), ({2}, 11), (set(range(6, TRIALS)), 17)],
)
def test_no_gain_has_patience_while_other_work_leaves_one_open(
    doubtful: set[int], trials: int
) -> None:
    """Twice as many candidates where one of the last six may have been a gain, and no more."""
    measurer = Busy(falling({0: 0.9, 4: 0.5}), reference=9.0)
    measurer.doubtful = frozenset(doubtful)
    result = tune(sl.stop.no_gain(trials=6), [], measurer=measurer)
    assert len(result.records) == trials


@pytest.mark.parametrize(
    ("second", "doubts", "ends"),
    [(5.5, 0, True), (5.5, 1, False), (8.4, 1, False), (9.5, 1, True)],
)
def test_no_gain_has_patience_in_seconds(second: float, doubts: int, ends: bool) -> None:
    trial = Trial(
        None,  # type: ignore[arg-type]
        small_workload(),
        sl.Target("cpu"),
        9,
        second,
        gains=[Gain(1, 0.5, 0.5)],
        doubts=[Gain(5, 5.0, 0.3)] * doubts,
    )
    assert bool(sl.stop.no_gain(seconds=4.0)(trial)) == ends


def test_where_nothing_succeeds_it_says_so() -> None:
    result = tune(sl.stop.no_gain(trials=5), [None])
    assert len(result.records) == 5
    assert result.finished == "no candidate succeeded in the last 5 trials"


def test_no_gain_in_some_seconds(clock: FakeTime) -> None:
    result = tune(sl.stop.no_gain(seconds=2), [], measurer=Pretends(0.1, clock))
    # The first candidate is the fastest there is.
    assert 20 <= len(result.records) <= 22
    assert result.finished == "no gain in the last 2 s"


def test_a_latency() -> None:
    result = tune(sl.stop.latency(0.45), falling({0: 0.9, 4: 0.5, 9: 0.4}))
    assert len(result.records) == 10
    assert result.finished.startswith("the latency of 450 ms is reached: 40")


def test_a_share_of_the_roofline() -> None:
    workload, target = small_workload(), sl.Target("cpu")
    shortest = workload.flops / peak_of(workload, target)
    latencies = [shortest / part for part in (0.1, 0.5, 0.93, 0.99)]
    result = tune(sl.stop.roofline(0.9), latencies)
    assert len(result.records) == 3
    assert result.finished.startswith("93% of the roofline is reached (arithmetic, the target's")
    assert result.finished.endswith("at most 1.08x is left to find")
    measured = sl.stop.roofline(0.95, flops_per_second=0.5 * peak_of(workload, target))
    result = tune(measured, latencies)
    assert len(result.records) == 2 and "(arithmetic: " in result.finished
    rate = bytes_of(workload) / (4 * shortest)
    result = tune(sl.stop.roofline(0.39, bytes_per_second=rate), latencies)
    assert len(result.records) == 1 and "(memory: " in result.finished


def test_a_roofline_that_is_not_known_is_refused_before_anything_is_measured() -> None:
    source = te.placeholder((8, 8), "float32", "A")
    turned = te.compute((8, 8), lambda i, j: source[j, i], "B")
    copy = sl.workloads.from_te([source, turned], "copy")
    with pytest.raises(ValueError, match=r"does no arithmetic; give bytes_per_second="):
        sl.tune(copy, stop_when=sl.stop.all_of(sl.stop.roofline(), sl.stop.no_gain(trials=9)))
    assert sl.stop.roofline(bytes_per_second=1e9).check(copy, sl.Target("cpu")) is None


def test_any_of_several_rules_ends_a_run_and_all_of_them_together() -> None:
    latencies = falling({0: 0.9, 4: 0.5, 9: 0.4})
    rules = [sl.stop.latency(0.45), sl.stop.no_gain(trials=20)]
    assert len(tune(rules, latencies).records) == 10
    assert len(tune(sl.stop.any_of(*rules), latencies).records) == 10
    result = tune(sl.stop.all_of(*rules), latencies)
    assert len(result.records) == 30
    assert " and no gain in the last 20 trials" in result.finished


def test_a_function_is_a_rule() -> None:
    def enough(trial: sl.Trial) -> bool:
        return trial.trials >= 7

    assert tune(enough, [1.0] * 99).finished.endswith("enough holds")
    result = tune([lambda trial: "I am tired" if trial.best < 0.7 else None], falling({3: 0.6}))
    assert result.finished == "I am tired" and len(result.records) == 4


def test_a_rule_that_raises_does_not_end_a_run() -> None:
    with pytest.warns(sl.CallbackWarning, match="the rule .* raised ZeroDivisionError"):
        result = tune([lambda trial: 1 / 0, sl.stop.no_gain(trials=3)], [1.0] * 99)
    assert result.finished == "no gain in the last 3 trials"


def test_the_same_call_has_nothing_left_to_do_and_another_goes_on(tmp_path: Path) -> None:
    latencies = falling({0: 0.9, 4: 0.5, 20: 0.4})
    given = {"database": tmp_path / "tune.db"}
    first = tune(sl.stop.no_gain(trials=6), latencies, **given)
    measurer = Scripted(latencies, reference=9.0)
    again = tune([sl.stop.no_gain(trials=6)], latencies, measurer=measurer, **given)
    assert again.finished == first.finished and not measurer.finalists
    assert again.best.latency == first.best.latency
    more = tune(sl.stop.no_gain(trials=17), latencies, **given)
    assert more.earlier == len(first.records) == 11
    assert len(more.records) == 38 and more.finished == "no gain in the last 17 trials"
    assert len({record.proposal for record in more.records}) == 38


def test_rules_alone_allow_more_trials_than_there_are_without_them() -> None:
    wide = sl.tune(
        sl.workloads.matmul(64, 64, 64),
        search="random",
        measurer=Scripted([1.0] * 99, reference=9.0),
        stop_when=lambda trial: trial.trials == 70,
    )
    assert len(wide.records) == 70


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: sl.stop.no_gain(), "trials= or seconds="),
        (lambda: sl.stop.no_gain(trials=0), "trials=0"),
        (lambda: sl.stop.no_gain(seconds=-1.0), "seconds=-1.0"),
        (lambda: sl.stop.no_gain(trials=1, least=1.5), "least=1.5"),
        (lambda: sl.stop.latency(0), "seconds=0"),
        (lambda: sl.stop.roofline(90), "share=90"),
        (lambda: sl.stop.roofline(bytes_per_second=0), "bytes_per_second=0"),
        (lambda: sl.stop.any_of(), "one rule"),
    ],
)
def test_wrong_numbers_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_rule_is_refused() -> None:
    for wrong in (3, [None], sl.Callback, "latency"):
        with pytest.raises(TypeError, match="is no rule"):
            tune(wrong, [1.0] * 99)


class Undecided:
    """What is neither true nor false, as an array of two numbers."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


def test_a_rule_whose_answer_is_neither_true_nor_false_does_not_end_a_run() -> None:
    with pytest.warns(sl.CallbackWarning, match="the rule .*lambda.* neither true nor false"):
        result = tune(lambda trial: Undecided(), [1e-3, 2e-3, 3e-3, 4e-3], trials=4)
    assert result.finished == "4 trials"


@pytest.mark.parametrize("name", ["no_gain", "latency", "roofline", "any_of", "all_of"])
def test_a_rule_that_was_not_called_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} makes a rule and is none; call it, as in sl\."):
        tune(getattr(sl.stop, name), [1e-3])
    with pytest.raises(TypeError, match="call it"):
        sl.stop.any_of(sl.stop.latency(1.0), getattr(sl.stop, name))
