"""The comparison of outputs."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang.networks.network import compare


def error(output: object, expected: object, tolerance: float | None = None) -> tuple[float, bool]:
    (found,) = compare(["y"], [np.asarray(output)], [np.asarray(expected)], tolerance).outputs
    return found.largest, found.passed


def test_errors_are_relative_to_the_largest_magnitude() -> None:
    expected = np.array([1.0, 100.0], np.float32)
    assert error(expected, expected) == (0.0, True)
    assert error(expected + np.float32(0.005), expected)[1]
    assert not error(expected + np.float32(0.05), expected)[1]
    assert error(expected + np.float32(0.05), expected, 1e-2)[1]
    found = compare(["y"], [expected + np.float32(0.5)], [expected])
    assert str(found) == "y: error 0.5 of 100, above the tolerance of 0.0001 of that"
    assert found.largest == pytest.approx(0.5)


def test_integers_and_booleans_must_be_equal() -> None:
    assert error([1, 2], [1, 2]) == (0.0, True)
    assert error([1, 3], [1, 2]) == (1.0, False)
    assert error([True], [False]) == (1.0, False)


def test_numbers_that_are_not_finite() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 2.0])
    assert error(special, special) == (0.0, True)
    assert error([np.nan, 1.0], [1.0, 1.0]) == (np.inf, False)
    assert error([1.0, 1.0], [np.inf, 1.0]) == (np.inf, False)


def test_another_shape_or_type_fails() -> None:
    assert not error(np.zeros((2, 1)), np.zeros(2))[1]
    assert not error(np.zeros(2, np.float32), np.zeros(2))[1]
    assert error(np.zeros(0), np.zeros(0)) == (0.0, True)


def test_zeros_must_be_zeros() -> None:
    assert not error([1e-30], [0.0])[1]
