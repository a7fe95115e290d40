"""Sums of digits."""

from __future__ import annotations

from tvm import tirx

from schedlang.tvm.schedule.tile_guards import Linear, linear_of

ROW, COLUMN = tirx.Var("i", "int32"), tirx.Var("j", "int32")
EXTENTS = {ROW: 24, COLUMN: 5}


def of(expression: object) -> Linear:
    found = linear_of(expression, EXTENTS)
    assert found is not None
    return found


def test_digits_of_a_variable_are_found() -> None:
    found = of(ROW // 6 * 10 + ROW % 6 * 2 + COLUMN - 3)
    assert [(one.low, one.high) for one in found.terms] == [(6, 24), (1, 6), (1, 5)]
    assert found.constant == -3 and found.most == 3 * 10 + 5 * 2 + 4 - 3


def test_digits_that_are_no_parts_are_unknown() -> None:
    for expression in (
        ROW // 7,
        ROW % 5,
        ROW * COLUMN,
        tirx.max(ROW, COLUMN),
        tirx.Var("k", "int32"),
    ):
        assert linear_of(expression, EXTENTS) is None


def test_what_cancels_out_is_gone() -> None:
    assert not of((ROW + COLUMN) * 2 - ROW * 2 - COLUMN * 2).terms


def test_a_sum_covers_all_numbers_once() -> None:
    assert of(ROW * 5 + COLUMN).covers() and of(ROW // 6 * 6 + ROW % 6).covers()
    assert not of(ROW * 4 + COLUMN).covers() and not of(ROW * 6 + COLUMN).covers()
    # Both tell of the same part of i.
    assert not of(ROW // 4 * 12 + ROW % 12).covers()


def test_multiples_of_a_part() -> None:
    start = of(ROW * 5)
    assert of(ROW * 10 + COLUMN).factor_of(start) == 2
    assert of(COLUMN).factor_of(start) == 0
    assert of(ROW * 7).factor_of(start) is None
    assert of(ROW // 6 * 5).factor_of(start) is None
    assert of(ROW // 6).factor_of(of(ROW % 6)) == 0


def test_expressions_are_as_they_were() -> None:
    assert str(of(ROW // 6 % 2 * 3 + COLUMN).expression("int32")) == "i // 6 % 2 * 3 + j"
