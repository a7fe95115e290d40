"""Weights of few values as integers and scales, which give them bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from schedlang.tvm.relax.low_bit_weights import LowBitWeights, in_few_bits

Array = np.ndarray[Any, Any]


def quantised(
    rows: int, steps: int, group: int, bits: int, *, shift: bool, seed: int = 0
) -> tuple[Array, Array]:
    """Weights whose scales are drawn over many magnitudes, and the integers behind them."""
    rng = np.random.default_rng(seed)
    shape = rows, steps // group
    q = rng.integers(0, 2**bits, (*shape, group))
    z = rng.integers(0, 2**bits, (*shape, 1)) if shift else 2 ** (bits - 1)
    s = (10.0 ** rng.uniform(-12, 6, (*shape, 1))).astype(np.float32)
    return ((q - z).astype(np.float32) * s).reshape(rows, steps), (q - z).reshape(rows, steps)


def values_of(found: LowBitWeights) -> Array:
    """The weights again, unpacked from their bytes."""
    stored = found.stored
    if found.bits == 4:
        stored = np.stack([stored & 15, stored >> 4], axis=-1).reshape(len(stored), -1)
    group = stored.shape[1] // found.s.shape[1]
    default = 8 if found.bits == 4 else 0
    zero = default if found.z is None else np.repeat(found.z.astype(int), group, axis=1)
    return (stored.astype(int) - zero).astype(found.s.dtype) * np.repeat(found.s, group, axis=1)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    groups=st.integers(1, 5),
    group=st.sampled_from([16, 32, 64, 128]),
    bits=st.sampled_from([4, 8]),
    shift=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_quantised_weights_are_found_bit_for_bit(
    rows: int, groups: int, group: int, bits: int, shift: bool, seed: int
) -> None:
    weights, _ = quantised(rows, groups * group, group, bits, shift=shift, seed=seed)
    found = in_few_bits(weights)
    assert found is not None and found.bits <= bits
    assert values_of(found).tobytes() == (weights + np.float32(0)).tobytes()
    assert found.s.shape[1] <= groups


def test_a_scale_for_each_row_is_found_as_one() -> None:
    weights, counts = quantised(6, 100, 100, 4, shift=False)
    found = in_few_bits(weights)
    assert found is not None and found.s.shape == (6, 1) and found.z is None
    np.testing.assert_array_equal(found.q.astype(int) - 8, counts)
    assert found.stored.shape == (6, 50)


def test_an_odd_number_of_steps_takes_bytes() -> None:
    weights, _ = quantised(6, 33, 33, 4, shift=False)
    found = in_few_bits(weights)
    assert found is not None and found.bits == 8
    assert values_of(found).tobytes() == weights.tobytes()


@pytest.mark.parametrize("kind", ["drawn", "one element is off", "nan", "inf", "codebook", "wide"])
def test_other_weights_stay(kind: str) -> None:
    weights, counts = quantised(8, 64, 32, 4, shift=True)
    rng = np.random.default_rng(0)
    if kind == "drawn":
        weights = rng.standard_normal((8, 64)).astype(np.float32)
    elif kind == "one element is off":
        weights[5, 40] = np.nextafter(weights[5, 40], np.float32(np.inf))
    elif kind in ("nan", "inf"):
        weights[5, 40] = float(kind)
    elif kind == "codebook":  # as in 4-bit normal floats
        weights = rng.standard_normal(16).astype(np.float32)[counts & 15]
    else:  # 9 bits
        weights = rng.integers(-300, 300, (8, 64)).astype(np.float32)
        weights[:, ::16] = [1, 511, -300, 299]
    assert in_few_bits(weights) is None


def test_zeros_and_equal_numbers_are_few_values_too() -> None:
    for weights in (np.zeros((4, 32)), np.ones((4, 32)), np.full((4, 32), -0.37)):
        weights = weights.astype(np.float32)
        found = in_few_bits(weights)
        assert found is not None and found.bits == 4
        assert values_of(found).tobytes() == weights.tobytes()
