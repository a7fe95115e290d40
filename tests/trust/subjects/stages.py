"""Several stages with memory between them: what a stage reads must have been written in this call.

The memory between stages is large enough that it is not on the stack. It holds what an earlier call
left there: where that was right, a program that reads it too early gives the right results.
"""

from __future__ import annotations

from tests.trust.attack import Subject, body, edit, right, tensors, wrong

_SIGNATURE = tensors(x=("float32", 64, 64), y=("float32", 64, 64))
_ALLOCATE = 'middle = T.sblock_alloc_buffer((64, 64), "float32")\n'
_FIRST = """
for row, column in T.grid(64, 64):
    with T.sblock("middle"):
        i, j = T.axis.remap("SS", [row, column])
        middle[i, j] = x[i, j] * T.float32(2) + T.float32(1)
"""
_SECOND = """
for row, column in T.grid(64, 64):
    with T.sblock("y"):
        i, j = T.axis.remap("SS", [row, column])
        y[i, j] = middle[i, j] + middle[T.max(i - 1, 0), j] + middle[T.min(i + 1, 63), j]
"""
_EVEN_ROWS = """
for i, j in T.grid(32, 64):
    middle[i * 2, j] = x[i * 2, j] * T.float32(2) + T.float32(1)
"""
# Each tile of 16 rows computes its rows of the first stage, and uses those around them.
_TILES = """
for tile in range(4):
    for i, j in T.grid({rows}, 64):
        if tile * 16 + i - {before} >= 0 and tile * 16 + i - {before} < 64:
            middle[tile * 16 + i - {before}, j] = (
                x[tile * 16 + i - {before}, j] * T.float32(2) + T.float32(1)
            )
    for i, j in T.grid(16, 64):
        y[tile * 16 + i, j] = (
            middle[tile * 16 + i, j]
            + middle[T.max(tile * 16 + i - 1, 0), j]
            + middle[T.min(tile * 16 + i + 1, 63), j]
        )
"""
_SMALL_TILES = """
rows = T.sblock_alloc_buffer((20, 80), "float32")
for tile in range(4):
    for i, j in T.grid(18, 64):
        rows[i, j] = (
            x[T.min(T.max(tile * 16 + i - 1, 0), 63), j] * T.float32(2) + T.float32(1)
        )
    for i, j in T.grid(16, 64):
        y[tile * 16 + i, j] = rows[i + 1, j] + rows[i, j] + rows[i + 2, j]
"""
_IN_THE_OUTPUT = """
above = T.sblock_alloc_buffer((64,), "float32")
here = T.sblock_alloc_buffer((64,), "float32")
for i, j in T.grid(64, 64):
    y[i, j] = x[i, j] * T.float32(2) + T.float32(1)
for j in range(64):
    above[j] = y[0, j]
for i, j in T.grid(64, 64):
    here[j] = y[i, j]
    y[i, j] = y[i, j] + above[j] + y[T.min(i + 1, 63), j]
    above[j] = here[j]
"""
_RECOMPUTED = """
for i, j in T.grid(64, 64):
    y[i, j] = (
        (x[i, j] * T.float32(2) + T.float32(1))
        + (x[T.max(i - 1, 0), j] * T.float32(2) + T.float32(1))
        + (x[T.min(i + 1, 63), j] * T.float32(2) + T.float32(1))
    )
"""
_SCALED = """
for i, j in T.grid(64, 64):
    middle[i, j] = middle[i, j] + x[i, j] * T.float32(2) + T.float32(1)
"""


def _program(*parts: str) -> str:
    return _ALLOCATE + "".join(part.lstrip("\n") for part in parts)


STAGES = Subject(
    "two stages",
    _SIGNATURE,
    _program(_FIRST, _SECOND),
    (
        wrong("second stage first", "stale memory", body(_program(_SECOND, _FIRST))),
        wrong("first stage left out", "stale memory", body(_program(_SECOND))),
        wrong(
            "odd rows of the first stage left out",
            "stale memory",
            body(_program(_EVEN_ROWS, _SECOND)),
        ),
        wrong(
            "last row of the first stage left out",
            "stale memory",
            body(_program(_FIRST.replace("T.grid(64,", "T.grid(63,"), _SECOND)),
        ),
        wrong("no halo", "stale memory", body(_program(_TILES.format(rows=16, before=0)))),
        wrong("halo on one side", "stale memory", body(_program(_TILES.format(rows=17, before=1)))),
        wrong(
            "first stage adds to what was there", "stale memory", body(_program(_SCALED, _SECOND))
        ),
        wrong(
            "halo of the wrong tile",
            "edges",
            edit("middle[T.min(i + 1, 63), j]", "middle[T.min(i // 16 * 16 + 16, 63), j]"),
        ),
        wrong(
            "edge row repeated once too often", "edges", edit("T.max(i - 1, 0)", "T.max(i - 2, 0)")
        ),
        wrong("wraps around at the edge", "edges", edit("T.max(i - 1, 0)", "(i + 63) % 64")),
        wrong(
            "second stage reads the input",
            "aliases",
            edit("y[i, j] = middle[i, j]", "y[i, j] = x[i, j]"),
        ),
        right("tiles with a halo", body(_program(_TILES.format(rows=18, before=1)))),
        right("small tiles in a larger buffer", body(_SMALL_TILES)),
        right("the first stage in the output", body(_IN_THE_OUTPUT)),
        right("recomputed for each use", body(_RECOMPUTED)),
        right("first stage twice", body(_program(_FIRST, _FIRST, _SECOND))),
        right(
            "never read scratch is never written",
            body(
                'unused = T.sblock_alloc_buffer((64, 64), "float32")\n'
                + _program(
                    _FIRST, "for i, j in T.grid(64, 8):\n    unused[i, j] = x[i, j]\n", _SECOND
                )
            ),
        ),
    ),
)
