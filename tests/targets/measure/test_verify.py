from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from schedlang.measurement.problem import Tolerance
from schedlang.targets.measure import numerics
from schedlang.targets.measure.numerics import Numerics, compare, tolerance

RNG = np.random.default_rng(0)


def one(got: np.ndarray, want: np.ndarray, reduction_length: int = 1) -> str | None:
    return compare([got], [want], [str(want.dtype)], Numerics(reduction_length))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("length", [1, 64, 1024])
def test_another_order_of_summation_agrees(dtype: str, length: int) -> None:
    terms = RNG.uniform(-1, 1, (256, length)).astype(dtype)
    forward = np.zeros(256, dtype)
    backward = np.zeros(256, dtype)
    for k in range(length):
        forward = (forward + terms[:, k]).astype(dtype)
        backward = (backward + terms[:, length - 1 - k]).astype(dtype)
    assert one(backward, forward, length) is None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_missing_term_is_found(dtype: str) -> None:
    terms = RNG.uniform(-1, 1, (256, 1024)).astype(dtype)
    reason = one(terms[:, 1:].sum(axis=1), terms.sum(axis=1), 1024)
    assert reason is not None and "elements differ" in reason


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_unrelated_numbers_are_found_in_narrow_types(dtype: str) -> None:
    want = RNG.uniform(-1, 1, 512).astype(dtype)
    assert one(want[::-1].copy(), want, 1 << 20) is not None


def test_tolerance_grows_with_the_reduction_and_is_bounded() -> None:
    assert tolerance("float32", 100) == pytest.approx(10 * tolerance("float32", 1))
    assert tolerance("float16", 1 << 30) == tolerance("bfloat16", 1 << 30) == 0.25
    assert tolerance("float32", 1 << 20) < 0.01


def test_nan_never_agrees() -> None:
    want = np.array([1.0, np.nan], np.float32)
    assert "[1] got nan" in (one(want.copy(), want) or "")
    unwritten = one(np.full(2, np.nan, np.float32), np.ones(2, np.float32))
    assert unwritten is not None and "got nan" in unwritten and "not written" in unwritten
    assert one(np.ones(2, np.float32), want) is not None


def test_an_infinity_agrees_with_itself_only() -> None:
    want = np.array([np.inf, -np.inf, 1.0], np.float32)
    assert one(want.copy(), want) is None
    assert one(np.array([np.inf, np.inf, 1.0], np.float32), want) is not None
    assert one(np.array([1e30, -np.inf, 1.0], np.float32), want) is not None
    assert one(np.array([np.inf, -np.inf, np.inf], np.float32), want) is not None


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_are_exact(dtype: str) -> None:
    want = RNG.integers(0, 100, (4, 5)).astype(dtype)
    got = want.copy()
    assert one(got, want, 1 << 20) is None
    got[2, 3] += 1
    assert f"at [2, 3] got {got[2, 3]}, expected {want[2, 3]}" in (one(got, want, 1 << 20) or "")


def test_a_byte_that_is_no_truth_value_differs() -> None:
    want = np.array([True, False])
    got = np.array([0xA5, 0], np.uint8).view(np.bool_)
    assert one(want.copy(), want) is None
    assert one(got, want) is not None


def test_an_element_near_zero_is_as_exact_as_its_terms() -> None:
    want = np.array([1.0, 1e-12, -1.0], np.float32)
    assert one(np.array([1.0, 1e-7, -1.0], np.float32), want, 16) is None
    assert one(np.array([1.0, 1e-2, -1.0], np.float32), want, 16) is not None


def test_the_reason_names_the_output() -> None:
    good, bad = np.zeros(2, np.float32), np.ones(2, np.float32)
    reason = compare([good, bad], [good, good], ["float32", "float32"])
    assert reason is not None and reason.startswith("output 1 (float32): 2 of 2 elements differ")
    assert one(np.zeros(3, np.float32), good) == "output 0 (float32): shape (3,), expected (2,)"


def test_bfloat16_is_compared_by_value() -> None:
    want = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert one(np.array([1.0, 2.015625], ml_dtypes.bfloat16), want) is None
    assert one(np.array([1.0, 2.5], ml_dtypes.bfloat16), want) is not None


def test_what_nothing_rounds_is_equal_but_for_the_sign_of_zero() -> None:
    right = np.array([0.0, 1.0, 1e30], np.float32)
    near = right * np.float32(1 + 2e-7)
    exact = Numerics(stored=frozenset({"float32"}), exact=True)
    assert compare([near], [right], ["float32"], Numerics()) is None
    reason = compare([near], [right], ["float32"], exact)
    assert reason is not None and "2 of 3 elements differ" in reason
    assert compare([-right * -1], [right], ["float32"], exact) is None
    assert compare([np.array([-0.0], np.float32)], [right[:1]], ["float32"], exact) is None


def test_the_coarsest_type_on_the_way_counts() -> None:
    want = RNG.uniform(-1, 1, 64).astype(np.float32)
    got = (want * 1.01).astype(np.float32)
    assert one(got, want, 16) is not None
    half = Numerics(16, frozenset({"float16", "float32"}), True)
    assert compare([got], [want], ["float32"], half) is None
    assert compare([got * 3], [want], ["float32"], half) is not None


def rounded(got: np.ndarray, want: np.ndarray, stored: str = "float32") -> str | None:
    return compare([got], [want], [str(want.dtype)], Numerics(64, frozenset({stored}), True))


def test_few_integers_that_were_rounded_may_be_off_by_one() -> None:
    want = RNG.integers(-100, 100, 4000).astype(np.int8)
    near, many, far = want.copy(), want.copy(), want.copy()
    near[:3] += 1
    many[:400] += 1
    far[0] += 2
    assert rounded(near, want) is None
    assert "400 of 4000" in (rounded(many, want) or "")
    assert "1 of 4000" in (rounded(far, want) or "")
    # Where no floating-point number takes part, one is too many.
    assert "3 of 4000" in (one(near, want, 64) or "")
    # bfloat16 keeps 8 bits: a sum that is rounded otherwise is often the next integer.
    assert rounded(many, want, "bfloat16") is None


def test_truth_values_that_come_from_numbers() -> None:
    want = RNG.integers(0, 2, 2000).astype(np.bool_)
    one_off, many_off, no_truth = want.copy(), ~want, want.view(np.uint8).copy()
    one_off[5] = not one_off[5]
    no_truth[5] = 0xA5
    assert rounded(one_off, want) is None
    assert rounded(many_off, want) is not None
    assert rounded(no_truth.view(np.bool_), want) is not None


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("block", [7, 1 << 16])
def test_a_quick_look_finds_what_a_close_one_finds(
    dtype: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numerics, "_BLOCK", block)
    limit, quick = tolerance(dtype, 64), numerics._clearly_near
    ends = []
    for spread in (0.0, 0.5, 0.97, 1.03, 20.0):
        for given in (None, Tolerance(limit), Tolerance(0.0, 0.1)):
            for special in (0.0, 1.0, np.nan, np.inf, -np.inf):
                want = RNG.uniform(-1, 1, (5, 11))
                got = want + spread * limit * np.sqrt(np.mean(want**2))
                got[4, 10] += 0.0 if special == 1.0 else special
                want[4, 10] += special if special in (np.inf, 1.0) else 0.0
                arrays = [got.astype(dtype)], [want.astype(dtype)], [dtype], Numerics(64)
                monkeypatch.setattr(numerics, "_clearly_near", quick)
                ends.append(compare(*arrays, (given,)))
                monkeypatch.setattr(numerics, "_clearly_near", lambda *_: False)
                assert compare(*arrays, (given,)) == ends[-1]
    assert None in ends and any(ends)


def test_a_quick_look_is_enough_for_what_is_clearly_near() -> None:
    want = RNG.uniform(-1, 1, 1000).astype("float32")
    near = want + np.float32(1e-7)
    assert numerics._clearly_near(near, want, "float32", Tolerance(1e-5))
    assert not numerics._clearly_near(near, want, "float32", Tolerance(1e-8))
    assert not numerics._clearly_near(near * np.float32(np.inf), want, "float32", Tolerance(1.0))
    large = np.full(10, 3e38, "float32")
    assert not numerics._clearly_near(-large, large, "float32", Tolerance(0.1))
    assert not numerics._clearly_near(large / 2, large, "float32", Tolerance(0.1))
