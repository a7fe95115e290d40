"""Wrong updates in place: applied twice, read after they were overwritten, or not at all."""

from __future__ import annotations

from tests.trust.attack import Subject, append, body, edit, right, tensors, wrong

_UPDATE = """
for i, j in T.grid(50, 40):
    with T.sblock("a"):
        vi, vj = T.axis.remap("SS", [i, j])
        a[vi, vj] = a[vi, vj] * T.float32(3) + b[vi, vj]
for i, k in T.grid(50, 40):
    with T.sblock("total"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            total[vi] = T.float32(0)
        total[vi] = total[vi] + a[vi, vk]
"""
_SUM_FIRST = """
for i in range(50):
    total[i] = T.float32(0)
    for k in range(40):
        total[i] = total[i] + a[i, k]
for i, j in T.grid(50, 40):
    a[i, j] = a[i, j] * T.float32(3) + b[i, j]
"""
_UPDATE_PER_TERM = """
for i in range(50):
    total[i] = T.float32(0)
    for k in range(40):
        a[i, k] = a[i, k] * T.float32(3) + b[i, k]
        total[i] = total[i] + a[i, k]
"""
_TILE_TWICE = """
for i, tile in T.grid(50, 3):
    for j in range(16):
        if tile * 12 + j < 40:
            a[i, tile * 12 + j] = a[i, tile * 12 + j] * T.float32(3) + b[i, tile * 12 + j]
for i in range(50):
    total[i] = T.float32(0)
    for k in range(40):
        total[i] = total[i] + a[i, k]
"""
_TERM = "a[vi, vj] * T.float32(3) + b[vi, vj]"
_UNDONE = """
for i, j in T.grid(50, 40):
    a[i, j] = (a[i, j] - b[i, j]) / T.float32(3)
"""
_AGAIN = """
for i, j in T.grid(50, 40):
    a[i, j] = a[i, j] * T.float32(3) + b[i, j]
"""

UPDATE = Subject(
    "update, then row sums",
    tensors(a=("float32", 50, 40), b=("float32", 50, 40), total=("float32", 50)),
    _UPDATE,
    (
        wrong("update applied twice", "in place", append(_AGAIN)),
        wrong("sums before the update", "in place", body(_SUM_FIRST)),
        wrong("overlapping tiles updated twice", "in place", body(_TILE_TWICE)),
        wrong("update left out", "in place", edit(_TERM, "a[vi, vj]")),
        wrong("update without what was there", "in place", edit(_TERM, "T.float32(3) + b[vi, vj]")),
        wrong(
            "sums written, update lost",
            "in place",
            append(_UNDONE),
        ),
        wrong(
            "last row not updated",
            "edges",
            edit(
                'for i, j in T.grid(50, 40):\n    with T.sblock("a")',
                'for i, j in T.grid(49, 40):\n    with T.sblock("a")',
            ),
        ),
        wrong("the other input changed", "inputs", append("b[3, 3] = T.float32(0)")),
        right("update and sum in one loop", body(_UPDATE_PER_TERM)),
        right(
            "update by doubling and adding",
            edit(_TERM, "(a[vi, vj] + (a[vi, vj] + a[vi, vj])) + b[vi, vj]"),
        ),
    ),
)

_SHIFT = """
before = T.sblock_alloc_buffer((2000,), "float32")
for i in range(2000):
    with T.sblock("before"):
        vi = T.axis.spatial(2000, i)
        before[vi] = a[vi]
for i in range(2000):
    with T.sblock("a"):
        vi = T.axis.spatial(2000, i)
        a[vi] = before[T.max(vi - 1, 0)] + before[vi]
"""
_NO_COPY = """
before = T.sblock_alloc_buffer((2000,), "float32")
for i in range(2000):
    a[i] = before[T.max(i - 1, 0)] + before[i]
"""
_LATE_COPY = (
    _NO_COPY
    + """
for i in range(2000):
    before[i] = a[i]
"""
)
_FORWARDS = """
for i in range(2000):
    a[i] = a[T.max(i - 1, 0)] + a[i]
"""
_BACKWARDS = """
for i in range(2000):
    a[1999 - i] = a[T.max(1998 - i, 0)] + a[1999 - i]
"""
_ONE_VALUE_KEPT = """
kept = T.sblock_alloc_buffer((2,), "float32")
kept[0] = a[0]
for i in range(2000):
    kept[1] = a[i]
    a[i] = kept[0] + a[i]
    kept[0] = kept[1]
"""

SHIFT = Subject(
    "neighbours in place",
    tensors(a=("float32", 2000)),
    _SHIFT,
    (
        wrong("reads what it has overwritten", "in place", body(_FORWARDS)),
        wrong("copy left out", "stale memory", body(_NO_COPY)),
        wrong("copy afterwards", "stale memory", body(_LATE_COPY)),
        wrong("does not change anything", "in place", body("T.evaluate(0)")),
        right("from the end, without a copy", body(_BACKWARDS)),
        right("one value kept", body(_ONE_VALUE_KEPT)),
    ),
)
