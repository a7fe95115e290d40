"""Features of programs that travel."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedlang.tuning.hosts.tables import pack_tables, unpack_tables
from schedlang.tvm.analysis.statement_features import COLUMNS, Features


def table(rows: int, first: float = 0.0) -> Features:
    return (first + np.arange(rows * COLUMNS, dtype=np.float32)).reshape(rows, COLUMNS)


@given(st.lists(st.none() | st.integers(0, 3), max_size=6))
def test_they_arrive_as_they_were(rows: list[int | None]) -> None:
    tables = [None if one is None else table(one, number) for number, one in enumerate(rows)]
    found = unpack_tables(pack_tables(tables), len(tables))
    assert len(found) == len(tables)
    for one, other in zip(found, tables, strict=True):
        if other is None:
            assert one is None
        else:
            assert one is not None and one.dtype == np.float32
            np.testing.assert_array_equal(one, other)


@given(st.data())
def test_damaged_ones_are_unknown(data: st.DataObject) -> None:
    frame = bytearray(pack_tables([table(2), None, table(1)]))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= data.draw(st.integers(1, 255))
    for one in unpack_tables(bytes(frame), 3):
        assert one is None or np.isfinite(one).all()
    assert unpack_tables(bytes(frame[: len(frame) // 2]), 3) == [None] * 3


def test_those_of_another_number_of_programs_are_unknown() -> None:
    frame = pack_tables([table(2), table(1)])
    assert unpack_tables(frame, 3) == [None] * 3
    assert unpack_tables(b"", 2) == [None, None]
    assert unpack_tables(pack_tables([]), 0) == []


def test_those_that_are_no_numbers_are_unknown() -> None:
    wrong = table(1)
    wrong[0, 3] = np.nan
    assert unpack_tables(pack_tables([wrong, table(1)]), 2) == [None, None]
