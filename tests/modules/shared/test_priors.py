"""What the modules' priors share."""

from __future__ import annotations

import re

import pytest

import schedlang as sl
from schedlang.errors import SpaceError
from schedlang.modules import auto_inline, parallel_vectorize_unroll, register_tile, vector_math
from schedlang.modules.finish import PREFERENCE, complement, weigh_multiples
from schedlang.spaces.module import Module


@pytest.mark.parametrize("prob", [0.0, -0.5, 1.5])
@pytest.mark.parametrize(
    ("module", "option"),
    [
        (auto_inline, "unordered_prob"),
        (parallel_vectorize_unroll, "prob"),
        (register_tile, "prob"),
        (vector_math, "prob"),
    ],
)
def test_what_is_no_probability_is_refused(module: Module, option: str, prob: float) -> None:
    message = f"{module.name}({option}={prob}): give more than 0 and at most 1"
    with pytest.raises(SpaceError, match=re.escape(message)):
        sl.Space([module(**{option: prob})]).sample(sl.workloads.matmul(16, 16, 16), seed=0)


def test_multiples_are_preferred_up_to_the_bound() -> None:
    assert weigh_multiples(8, 24) == {8: PREFERENCE, 16: PREFERENCE, 24: PREFERENCE}
    assert weigh_multiples(8, 7) == {}


def test_the_probability_of_the_alternative_is_short() -> None:
    """A printed program has 0.1, not 0.09999999999999998."""
    assert [complement(prob) for prob in (0.9, 0.95, 0.5, 1.0)] == [0.1, 0.05, 0.5, 0.0]
    traces = [
        sketch.trace for sketch in sl.default_space("cpu").sketches(sl.workloads.matmul(64, 64, 64))
    ]
    assert all("99999" not in str(trace) and "00000" not in str(trace) for trace in traces)
