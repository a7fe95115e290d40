"""Wrong programs that read the right rows but for a few, from the start or from the end."""

from __future__ import annotations

from tests.trust.attack import Subject, edit, right, tensors, wrong

_ONE, _NEGATIVE = "one index in 1,000", "negative indices"
_LOOKUP = """
for i, j in T.grid(600, 4):
    with T.sblock("rows"):
        vi, vj = T.axis.remap("SS", [i, j])
        rows[vi, vj] = table[index[vi], vj]
"""
_ROW = "table[index[vi], vj]"
LOOKUP = Subject(
    "lookup of 600 rows",
    tensors(table=("float32", 1000, 4), index=("int32", 600), rows=("float32", 600, 4)),
    _LOOKUP,
    (
        wrong(
            "row 517 of 1000 for another",
            _ONE,
            edit(_ROW, "table[T.if_then_else(index[vi] == 517, 516, index[vi]), vj]"),
        ),
        wrong(
            "row 3 of 1000 is zero",
            _ONE,
            edit(_ROW, f"T.if_then_else(index[vi] == 3, T.float32(0), {_ROW})"),
        ),
        wrong(
            "row 998 of 1000 is zero",
            _ONE,
            edit(_ROW, f"T.if_then_else(index[vi] == 998, T.float32(0), {_ROW})"),
        ),
        wrong(
            "row 700 of 1000 twice as large",
            _ONE,
            edit(_ROW, f"T.if_then_else(index[vi] == 700, T.float32(2) * {_ROW}, {_ROW})"),
        ),
        right(
            "rows by a sum of two indices",
            edit(_ROW, "table[index[vi] // 10 * 10 + index[vi] % 10, vj]"),
        ),
    ),
)

_WRAPPED = "T.if_then_else(index[vi] < 0, index[vi] + 50, index[vi])"
_WRAP = f"""
for i, j in T.grid(80, 4):
    with T.sblock("rows"):
        vi, vj = T.axis.remap("SS", [i, j])
        rows[vi, vj] = table[{_WRAPPED}, vj]
"""
WRAP = Subject(
    "rows from the end",
    tensors(table=("float32", 50, 4), index=("int32", 80), rows=("float32", 80, 4)),
    _WRAP,
    (
        wrong("negative indices clamped", _NEGATIVE, edit(_WRAPPED, "T.max(index[vi], 0)")),
        wrong(
            "magnitude of a negative index",
            _NEGATIVE,
            edit(_WRAPPED, "T.min(T.abs(index[vi]), 49)"),
        ),
        wrong(
            "one row too early from the end",
            _NEGATIVE,
            edit("index[vi] + 50,", "T.max(index[vi] + 49, 0),"),
        ),
        wrong(
            "the first row from the end is another",
            _NEGATIVE,
            edit("index[vi] + 50,", "T.if_then_else(index[vi] == -50, 1, index[vi] + 50),"),
        ),
        wrong(
            "the last row from the end is another",
            _NEGATIVE,
            edit("index[vi] + 50,", "T.if_then_else(index[vi] == -1, 48, index[vi] + 50),"),
        ),
        right("rows from the end by a remainder", edit(_WRAPPED, "T.floormod(index[vi] + 50, 50)")),
        right(
            "rows from the end by a Select",
            edit(_WRAPPED, "index[vi] + T.Select(index[vi] < 0, 50, 0)"),
        ),
    ),
)

_ADD = """
for i in range(200):
    with T.sblock("zero"):
        vi = T.axis.spatial(200, i)
        total[vi] = T.float32(0)
for i in range(300):
    with T.sblock("add"):
        vi = T.axis.opaque(300, i)
        total[index[vi]] = total[index[vi]] + x[vi]
"""
ADD = Subject(
    "sums by indices",
    tensors(x=("float32", 300), index=("int32", 300), total=("float32", 200)),
    _ADD,
    (
        wrong(
            "the last of equal indices for their sum",
            "indices",
            edit("total[index[vi]] + x[vi]", "x[vi]"),
        ),
        wrong(
            "row 117 of 200 left out",
            _ONE,
            edit(
                "total[index[vi]] + x[vi]",
                "total[index[vi]] + T.if_then_else(index[vi] == 117, T.float32(0), x[vi])",
            ),
        ),
        right(
            "sums by indices from the end",
            edit(
                "total[index[vi]] = total[index[vi]] + x[vi]",
                "total[index[299 - vi]] = total[index[299 - vi]] + x[299 - vi]",
            ),
        ),
    ),
)
