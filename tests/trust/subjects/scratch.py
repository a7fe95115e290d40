"""Tiles that are not full: what lies behind their last number was never written.

Maxima, minima, comparisons and bounds discard some of what they find there, such as NaN.
"""

from __future__ import annotations

from tests.trust.attack import Attack, Subject, body, right, tensors, wrong

_KIND = "unwritten memory"

_UNSCHEDULED = """
for i, k in T.grid(48, 100):
    with T.sblock("y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            y[vi] = {start}
        y[vi] = {step}
"""
# A tile on the stack, one for each row in memory that TVM's pool gives, and one of each thread's.
_SMALL = """
p = T.sblock_alloc_buffer((120,), "{dtype}")
for i in range(48):
    for k in range(100):
        p[k] = x[i, k]
    y[i] = {start}
    for k in range({read}):
        y[i] = {step}
"""
_LARGE = """
p = T.sblock_alloc_buffer((48, 120), "{dtype}")
for i, k in T.grid(48, 100):
    p[i, k] = x[i, k]
for i in range(48):
    y[i] = {start}
    for k in range({read}):
        y[i] = {step}
"""
_PARALLEL = """
p = T.sblock_alloc_buffer((4, 12, 120), "{dtype}")
for block in T.parallel(4):
    for j, k in T.grid(12, 100):
        p[block, j, k] = x[block * 12 + j, k]
    for j in range(12):
        y[block * 12 + j] = {start}
        for k in range({read}):
            y[block * 12 + j] = {step}
"""
_TILES = (
    ("a large tile", _LARGE, "i", "p[i, k]"),
    ("a small tile", _SMALL, "i", "p[k]"),
    ("a thread's tile", _PARALLEL, "block * 12 + j", "p[block, j, k]"),
)


def _subject(
    name: str, dtype: str, start: str, step: str, result: str = "", *, tiles: int = 1
) -> Subject:
    """Return a reduction of rows of 100; in ``step``, ``@`` is a number and ``Y`` the result."""

    def program(text: str, row: str, element: str, read: int) -> str:
        return text.format(
            dtype=dtype,
            read=read,
            start=start.replace("@", f"x[{row}, 0]"),
            step=step.replace("@", element).replace("Y", f"y[{row}]"),
        )

    attacks: list[Attack] = []
    for tile, text, row, element in _TILES[:tiles]:
        full, part = (program(text, row, element, read) for read in (120, 100))
        attacks += [
            wrong(f"{name} of {tile} that is not full", _KIND, body(full)),
            right(f"{name} of what {tile} has", body(part)),
        ]
    unscheduled = _UNSCHEDULED.format(
        start=start.replace("@", "x[vi, 0]"),
        step=step.replace("@", "x[vi, vk]").replace("Y", "y[vi]"),
    )
    signature = tensors(x=(dtype, 48, 100), y=(result or dtype, 48))
    return Subject(f"{name} of a tile", signature, unscheduled, tuple(attacks))


_NUMBERS = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32")
# Of these, tiles at other places too.
_COMMON = ("float32", "int8", "uint8")


def _extremes(kind: str, call: str) -> dict[str, Subject]:
    return {
        dtype: _subject(
            f"{dtype} {kind}", dtype, "@", f"T.{call}(@, Y)", tiles=3 if dtype in _COMMON else 1
        )
        for dtype in _NUMBERS
    }


MAXIMA, MINIMA = _extremes("maximum", "max"), _extremes("minimum", "min")
ABSOLUTE = {
    name: _subject(f"{name} magnitude", name, "T.abs(@)", "T.max(T.abs(@), Y)")
    for name in ("float32", "float16")
}
ANY = {
    name: _subject(
        f"any {name} above", name, "T.bool(False)", f"Y or @ > T.{name}({bound})", "bool"
    )
    for name, bound in (("float32", 30), ("float16", 30), ("int8", 126))
}
CLIPPED = _subject(
    "clipped sum",
    "float32",
    "T.float32(0)",
    "Y + T.min(T.max(@, T.float32(0)), T.float32(1))",
)
SELECTED = _subject(
    "sum by comparison",
    "float32",
    "T.float32(0)",
    "Y + T.Select(@ > T.float32(0.5), @, T.float32(0))",
)
# How many numbers are less than a bound: what sorting counts.
RANK = _subject("rank", "float32", "0", 'Y + T.Cast("int32", @ < T.float32(0.25))', "int32")
TRUTH = _subject("conjunction", "bool", "T.bool(True)", "Y and @", "bool")

_POSITION = """
best = T.sblock_alloc_buffer((48,), "float32")
for i, k in T.grid(48, 100):
    with T.sblock("y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            best[vi] = T.float32(-3.4e38)
            y[vi] = 0
        y[vi] = T.Select(x[vi, vk] > best[vi], vk, y[vi])
        best[vi] = T.max(x[vi, vk], best[vi])
"""
_POSITION_OF_TILE = """
best = T.sblock_alloc_buffer((48,), "float32")
p = T.sblock_alloc_buffer((120,), "float32")
for i in range(48):
    for k in range(100):
        p[k] = x[i, k]
    y[i] = 0
    best[i] = T.float32(-3.4e38)
    for k in range({0}):
        y[i] = T.Select(p[k] > best[i], k, y[i])
        best[i] = T.max(p[k], best[i])
"""
POSITION = Subject(
    "position in a tile",
    tensors(x=("float32", 48, 100), y=("int32", 48)),
    _POSITION,
    (
        wrong("position in a tile that is not full", _KIND, body(_POSITION_OF_TILE.format(120))),
        right("position in what a tile has", body(_POSITION_OF_TILE.format(100))),
    ),
)

_DESCENTS = """
for i, k in T.grid(48, 100):
    with T.sblock("y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            y[vi] = 0
        if vk % 2 == 0:
            y[vi] = y[vi] + T.Cast("int32", x[vi, vk] > x[vi, vk + 1])
"""
_DESCENTS_OF_TILE = """
p = T.sblock_alloc_buffer((48, 120), "{1}")
for i, k in T.grid(48, 100):
    p[i, k] = x[i, k]
for i in range(48):
    y[i] = 0
    for k in range({0} // 2):
        y[i] = y[i] + T.Cast("int32", p[i, k * 2] > p[i, k * 2 + 1])
"""


def _descents(dtype: str) -> Subject:
    """Compares what was never written with itself: it shows where that is not all the same."""
    return Subject(
        f"{dtype} descents in a tile",
        tensors(x=(dtype, 48, 100), y=("int32", 48)),
        _DESCENTS,
        (
            wrong(
                f"{dtype} descents in a tile that is not full",
                _KIND,
                body(_DESCENTS_OF_TILE.format(120, dtype)),
            ),
            right(
                f"{dtype} descents in what a tile has", body(_DESCENTS_OF_TILE.format(100, dtype))
            ),
        ),
    )


FLOAT_DESCENTS, BYTE_DESCENTS = _descents("float32"), _descents("int8")


def _in_the_output(name: str, dtype: str, step: str) -> Subject:
    """The output is never initialised: a program goes on from what was there before."""
    scheduled = step.replace("vi", "i").replace("vk", "k")
    return Subject(
        f"{name} in the output",
        tensors(x=(dtype, 48, 100), y=(dtype, 48)),
        _UNSCHEDULED.format(start="x[vi, 0]", step=step),
        (
            wrong(
                f"{name} from what the output held",
                _KIND,
                body(f"for i, k in T.grid(48, 100):\n    y[i] = {scheduled}\n"),
            ),
        ),
    )


OUTPUTS = {
    (name, dtype): _in_the_output(f"{dtype} {name}", dtype, f"T.{call}(x[vi, vk], y[vi])")
    for name, call in (("maximum", "max"), ("minimum", "min"))
    for dtype in ("float32", "float16", "int8", "uint8")
}
