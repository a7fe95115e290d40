"""Wrong gathers and wrong positions of extremes."""

from __future__ import annotations

from tests.trust.attack import Subject, body, edit, right, tensors, wrong

_GATHER = """
for i, j in T.grid(64, 8):
    with T.sblock("rows"):
        vi, vj = T.axis.remap("SS", [i, j])
        rows[vi, vj] = table[index[vi], vj]
"""

GATHER = Subject(
    "gather",
    tensors(table=("float32", 1000, 8), index=("int32", 64), rows=("float32", 64, 8)),
    _GATHER,
    (
        wrong("clamped to 16 of 1000 rows", "indices", edit("index[vi]", "T.min(index[vi], 15)")),
        wrong("clamped to 128 rows", "indices", edit("index[vi]", "T.min(index[vi], 127)")),
        wrong(
            "index in a byte",
            "indices",
            edit("index[vi]", 'T.Cast("int32", T.Cast("uint8", index[vi]))'),
        ),
        wrong("last row out of reach", "indices", edit("index[vi]", "T.min(index[vi], 998)")),
        wrong("first row out of reach", "indices", edit("index[vi]", "T.max(index[vi], 1)")),
        wrong("next row", "indices", edit("index[vi]", "(index[vi] + 1) % 1000")),
        wrong("index not read", "indices", edit("index[vi]", "vi")),
        wrong("index of the neighbour", "indices", edit("index[vi]", "index[vi // 2 * 2]")),
        right("clamped to the table", edit("index[vi]", "T.max(T.min(index[vi], 999), 0)")),
        right(
            "rows from the last to the first",
            body("for i, j in T.grid(64, 8):\n    rows[63 - i, j] = table[index[63 - i], j]"),
        ),
    ),
)

_ARGMAX = """
for i in range(40):
    at[i] = 0
    top[i] = x[i, 0]
    for k in range(40):
        if x[i, k] > top[i]:
            at[i] = k
            top[i] = x[i, k]
"""
_LAST_OF_EQUALS = _ARGMAX.replace("x[i, k] > top[i]", "x[i, k] >= top[i]")
_FROM_THE_END = """
for i in range(40):
    at[i] = 39
    top[i] = x[i, 39]
    for k in range(40):
        if x[i, 39 - k] > top[i]:
            at[i] = 39 - k
            top[i] = x[i, 39 - k]
"""
_TWO_HALVES = """
for i in range(40):
    at[i] = 0
    top[i] = x[i, 0]
    for k in range(20):
        if x[i, k * 2] > top[i]:
            at[i] = k * 2
            top[i] = x[i, k * 2]
    for k in range(20):
        if x[i, k * 2 + 1] > top[i]:
            at[i] = k * 2 + 1
            top[i] = x[i, k * 2 + 1]
"""
_OFF = "\nfor i in range(40):\n    at[i] = at[i] + 1\n"
_RUNNER_UP = """
for i in range(40):
    at[i] = 0
    top[i] = x[i, 0]
    for k in range(40):
        if x[i, k] > top[i]:
            top[i] = x[i, k]
    for k in range(40):
        if x[i, k] < top[i] and x[i, k] >= x[i, at[i]]:
            at[i] = k
"""

# As tensor expressions make it: one reduction of two values.
_PAIR = """
for i, k in T.grid(40, 40):
    with T.sblock("argmax"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            at[vi] = -1
            top[vi] = T.float32(-3.4028234663852886e38)
        new_at: T.let[T.int32] = T.Select(top[vi] >= x[vi, vk], at[vi], vk)
        new_top: T.let[T.float32] = T.Select(top[vi] >= x[vi, vk], top[vi], x[vi, vk])
        at[vi] = new_at
        top[vi] = new_top
"""

ARGMAX = Subject(
    "position of the largest",
    tensors(x=("float32", 40, 40), at=("int32", 40), top=("float32", 40)),
    _PAIR,
    (
        wrong("every position one too large", "indices", body(_ARGMAX + _OFF)),
        wrong("positions of the runners-up", "indices", body(_RUNNER_UP)),
        wrong(
            "last candidate dropped",
            "edges",
            body(_ARGMAX.replace("k in range(40)", "k in range(39)")),
        ),
        wrong(
            "position of the smallest",
            "arithmetic",
            body(_ARGMAX.replace("x[i, k] > top[i]", "x[i, k] < top[i]")),
        ),
        wrong(
            "position along the other axis",
            "layout",
            body(_ARGMAX.replace("x[i, k]", "x[k, i]").replace("x[i, 0]", "x[0, i]")),
        ),
        wrong(
            "position of the largest magnitude",
            "signs",
            body(_ARGMAX.replace("x[i, k] > top[i]", "T.abs(x[i, k]) > T.abs(top[i])")),
        ),
        wrong(
            "position in the tile",
            "indices",
            body(_ARGMAX + _OFF.replace("at[i] + 1", "at[i] % 8")),
        ),
        wrong(
            "a random position",
            "indices",
            body(_ARGMAX + _OFF.replace("at[i] + 1", "(at[i] + i) % 40")),
        ),
        right("the last of equals", body(_LAST_OF_EQUALS)),
        right("from the end", body(_FROM_THE_END)),
        right("even positions first", body(_TWO_HALVES)),
    ),
)

_BYTES = """
for i, k in T.grid(30, 500):
    with T.sblock("argmax"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            at[vi] = -1
            top[vi] = T.int8(-128)
        new_at: T.let[T.int32] = T.Select(top[vi] >= x[vi, vk], at[vi], vk)
        new_top: T.let[T.int8] = T.Select(top[vi] >= x[vi, vk], top[vi], x[vi, vk])
        at[vi] = new_at
        top[vi] = new_top
"""
_BYTES_LAST = """
for i in range(30):
    at[i] = 0
    top[i] = x[i, 0]
    for k in range(500):
        if x[i, k] >= top[i]:
            at[i] = k
            top[i] = x[i, k]
"""
EQUALS = Subject(
    "position among equals",
    tensors(x=("int8", 30, 500), at=("int32", 30), top=("int8", 30)),
    _BYTES,
    (
        wrong(
            "one too large among equals",
            "indices",
            body(_BYTES_LAST + "\nfor i in range(30):\n    at[i] = T.min(at[i] + 1, 499)\n"),
        ),
        wrong(
            "always the first position",
            "indices",
            body(_BYTES_LAST + "\nfor i in range(30):\n    at[i] = 0\n"),
        ),
        right("the last of many equals", body(_BYTES_LAST)),
    ),
)
