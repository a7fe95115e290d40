"""How much of the latencies a decision explains, where that is known beforehand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from schedlang.tuning.decision_importance import FEWEST, importance

COUNT = 120


def drawn(seed: int, effect: float) -> tuple[list[int], list[float]]:
    """Values 0 to 3 of a decision; each step costs ``effect`` in log latency, and noise has 0.1."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, COUNT)
    logs = effect * values + 0.1 * rng.standard_normal(COUNT)
    return values.tolist(), np.exp(logs).tolist()


def test_a_decision_that_makes_the_latency_explains_it() -> None:
    for effect in (0.05, 0.1, 0.3):
        values, latencies = drawn(0, effect)
        found = importance(values, latencies)
        true = 1.25 * effect**2 / (1.25 * effect**2 + 0.01)
        assert found is not None and abs(found.part - true) < 0.15
        assert found.low <= found.part <= found.high
        assert found.low < true < found.high + 0.05
        assert found.p_value < 0.05


def test_a_decision_that_does_nothing_explains_nothing() -> None:
    """Of 40 decisions without an effect, 2 seem to have one on average; fails for 8 (p < 0.001)."""
    found = [importance(*drawn(seed, 0.0)) for seed in range(40)]
    assert sum(one is not None and one.p_value <= 0.05 for one in found) < 8


def test_one_number_of_several_is_found() -> None:
    rng = np.random.default_rng(0)
    column = [tuple(int(x) for x in row) for row in rng.integers(0, 50, (COUNT, 2))]
    column = [(first, second % 4) for first, second in column]
    latencies = [math.exp(0.2 * second) for _, second in column]
    found = importance(column, latencies)
    assert found is not None and found.part > 0.9


def test_many_values_alone_explain_nothing() -> None:
    values, latencies = drawn(0, 0.0)
    found = importance(range(COUNT), latencies)
    assert found is not None and found.part < 0.05


def test_one_very_slow_candidate_does_not_decide() -> None:
    values, latencies = drawn(1, 0.1)
    plain = importance(values, latencies)
    slow = importance([*values, 3], [*latencies, 1e6 * max(latencies)])
    assert plain is not None and slow is not None
    assert abs(plain.part - slow.part) < 0.2


def test_too_little_gives_no_answer() -> None:
    assert importance([0, 1], [1.0, 2.0]) is None
    assert importance([1] * FEWEST, [1.0 + k for k in range(FEWEST)]) is None
    equal = importance([0, 1] * FEWEST, [1.0] * 2 * FEWEST)
    assert equal is not None and equal.part == 0.0 and equal.p_value == 1.0


def test_the_same_data_give_the_same_answer() -> None:
    assert importance(*drawn(3, 0.1)) == importance(*drawn(3, 0.1))


@pytest.mark.parametrize("count", [FEWEST, 2000])
def test_any_number_of_candidates(count: int) -> None:
    latencies = [1.0 + (k % 7) / 10 for k in range(count)]
    found = importance([k % 7 for k in range(count)], latencies)
    assert found is not None and found.high <= 1.0
