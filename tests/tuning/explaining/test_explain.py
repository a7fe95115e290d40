"""What ``explain`` says of runs whose latencies follow a law that the test wrote down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.measurement.finals import choose
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.explaining import DecisionEffect, _is_number
from schedlang.tuning.records import blank_record
from schedlang.tuning.result import Best

WORKLOAD = small_workload()
TARGET = sl.Target("cpu")
BLANK = blank_record(WORKLOAD, TARGET, "random", 0)
Law = Callable[[Mapping[str, Any]], float]


def result_of(law: Law, count: int = 60, **given: Any) -> sl.TuneResult:
    """A run of random candidates, whose samples differ by 1%."""
    rng = np.random.default_rng(0)
    records, traces = [], []
    for seed in range(count):
        trace = ORDINARY.sample(WORKLOAD, seed=seed).trace
        latency = law({**trace.choices, **trace.decisions})
        samples = tuple(latency * (1 + 0.01 * rng.random(12)))
        records.append(
            replace(
                BLANK,
                trace_json=trace.to_json(),
                status=sl.Status.OK,
                samples=samples,
                verified=True,
            )
        )
        traces.append(trace)
    fastest = min(range(count), key=lambda k: records[k].latency)
    best = Best(records[fastest], traces[fastest], TARGET, given.pop("finals", None))
    return sl.TuneResult(
        WORKLOAD, records, given.pop("rejected", Counter()), [], 1.0, 1.0, "ended", best, **given
    )


def steps_decide(decisions: Mapping[str, Any]) -> float:
    """Twice the steps, two thirds of the latency; the cache costs a little."""
    factor = {2: 1.0, 4: 2 / 3, 8: 4 / 9}[decisions["steps"]]
    return 1e-3 * factor * (1.05 if decisions["cache"] else 1.0)


def effect_of(explanation: sl.Explanation, site: str) -> DecisionEffect:
    return next(one for one in explanation.decisions if one.site == site)


def test_the_decision_that_makes_the_latency_comes_first() -> None:
    found = sl.explain(result_of(steps_decide))
    steps, cache = effect_of(found, "steps"), effect_of(found, "cache")
    assert found.decisions[0] == steps and found.candidates == 60
    assert steps.importance is not None and steps.importance.part > 0.8
    assert steps.without == pytest.approx(1.5, rel=0.02) and steps.low < 1.5 < steps.high
    assert cache.without == pytest.approx(1.05, rel=0.02) and cache.needed and cache.matters
    assert not effect_of(found, "tile i").needed
    text = str(found)
    assert "steps = 8: explains " in text and "takes 1.50x the time" in text
    assert "What made no difference that shows: " in text and "tile i" in text.split("shows")[1]


def test_the_ends_of_what_was_tried_are_named() -> None:
    found = sl.explain(result_of(steps_decide))
    assert "steps = 8 is the largest of 3 numbers tried; the space has no other" in found.limits
    best = result_of(lambda one: abs(one["tile j"][1] - 8) + 1.0)
    assert not any("tile j" in limit for limit in sl.explain(best).limits)


def test_orders_and_sets_have_no_ends() -> None:
    assert not _is_number(sl.Permutation(3)) and not _is_number(sl.Subset((3, 5, 7)))
    assert _is_number(sl.PerfectTile(64, 2)) and _is_number(sl.IntRange(0, 4))


def test_the_peak_and_the_rejections_are_limits() -> None:
    rejected = Counter({"shared_memory": 3, "crashed": 1})
    limits = sl.explain(result_of(steps_decide, rejected=rejected)).limits
    assert "GFLOPS, " in limits[0] and "upper bound" in limits[0]
    assert limits[-1] == "of what failed or was rejected, most (3) was for: shared_memory"


def test_a_decision_that_was_not_varied_says_nothing() -> None:
    run = result_of(steps_decide)
    kept = [one for one in run.records if '"tile i"' in one.trace_json]
    tile = run.best.trace.decisions["tile i"]
    same = [r for r in kept if sl.Trace.from_json(r.trace_json).decisions["tile i"] == tile]
    found = sl.explain(replace(run, records=same))
    assert effect_of(found, "tile i").without is None
    assert "Not varied, so nothing is known: " in str(found)


def test_too_few_candidates_and_a_tie_are_doubts() -> None:
    finals = choose({0: [1.0, 1.1, 1.2] * 4, 1: [1.0, 1.1, 1.2] * 4})
    found = sl.explain(result_of(steps_decide, 5, finals=finals, interrupted=True))
    assert "only 5 candidates" in found.doubts[0]
    assert "as fast within the noise" in found.doubts[1] and "interrupted" in found.doubts[-1]
    assert all(one.importance is None for one in found.decisions)
    assert "percentage" not in str(found), "there is none"
    assert "only 1 candidate has" in sl.explain(result_of(steps_decide, 1)).doubts[0]


def test_where_the_program_is_kept_it_says_so() -> None:
    run = result_of(steps_decide)
    kept = replace(run, _best=Best(run.records[0], sl.Trace((), WORKLOAD), TARGET))
    text = str(sl.explain(kept))
    assert "the unscheduled program is the fastest" in text and "60 measured" in text


def test_only_a_result_with_a_best_is_explained() -> None:
    with pytest.raises(TypeError, match="not str"):
        sl.explain("tune.db")  # type: ignore[arg-type]
    with pytest.raises(sl.SchedlangError, match="no candidate of matmul succeeded"):
        sl.explain(replace(result_of(steps_decide), _best=None))


def test_a_trace_that_cannot_be_read_is_left_out() -> None:
    run = result_of(steps_decide)
    torn = [replace(run.records[0], trace_json='{"torn'), *run.records[1:]]
    assert sl.explain(replace(run, records=torn)).candidates == 59
