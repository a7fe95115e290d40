"""Wrong maxima, minima, conjunctions and small constants: of a vector, of columns, of channels."""

from __future__ import annotations

from tests.trust.attack import Attack, Change, Subject, body, edit, right, tensors, wrong

_VECTOR = """
square = T.sblock_alloc_buffer((1,), "float32")
for k in range(500):
    with T.sblock("top"):
        vk = T.axis.reduce(500, k)
        with T.init():
            top[0] = T.float32(-3.4e38)
        top[0] = T.max(top[0], x[vk])
for k in range(500):
    with T.sblock("low"):
        vk = T.axis.reduce(500, k)
        with T.init():
            low[0] = T.float32(3.4e38)
        low[0] = T.min(low[0], x[vk])
for k in range(300):
    with T.sblock("every"):
        vk = T.axis.reduce(300, k)
        with T.init():
            every[0] = T.bool(True)
        every[0] = every[0] and yes[vk]
for k in range(300):
    with T.sblock("some"):
        vk = T.axis.reduce(300, k)
        with T.init():
            some[0] = T.bool(False)
        some[0] = some[0] or yes[vk]
for k in range(500):
    with T.sblock("square"):
        vk = T.axis.reduce(500, k)
        with T.init():
            square[0] = T.float32(0)
        square[0] = square[0] + x[vk] * x[vk] * T.float32(0.002)
for i in range(500):
    with T.sblock("norm"):
        vi = T.axis.spatial(500, i)
        norm[vi] = x[vi] / T.sqrt(square[0] + T.float32(1e-10))
"""
_ROOT = "T.sqrt(square[0] + T.float32(1e-10))"


def _rare(name: str, *changes: Change) -> Attack:
    return wrong(name, "rare values", *changes)


VECTOR = Subject(
    "one vector",
    tensors(
        x=("float32", 500),
        yes=("bool", 300),
        top=("float32", 1),
        low=("float32", 1),
        every=("bool", 1),
        some=("bool", 1),
        norm=("float32", 500),
    ),
    _VECTOR,
    (
        _rare("maximum of a vector starts at zero", edit("T.float32(-3.4e38)", "T.float32(0)")),
        _rare("maximum of a vector starts at -100", edit("T.float32(-3.4e38)", "T.float32(-100)")),
        _rare("minimum of a vector starts at zero", edit("T.float32(3.4e38)", "T.float32(0)")),
        _rare(
            "maximum of a vector without its last",
            edit("T.max(top[0], x[vk])", "T.max(top[0], x[T.min(vk, 498)])"),
        ),
        _rare(
            "maximum of a vector without its first",
            edit("T.max(top[0], x[vk])", "T.max(top[0], x[T.max(vk, 1)])"),
        ),
        _rare(
            "maximum of a vector without one in the middle",
            edit("T.max(top[0], x[vk])", "T.max(top[0], x[T.if_then_else(vk == 256, 255, vk)])"),
        ),
        _rare(
            "any of a vector without one in the middle",
            edit("some[0] or yes[vk]", "some[0] or (yes[vk] and vk != 128)"),
        ),
        _rare(
            "minimum of a vector without its last",
            edit("T.min(low[0], x[vk])", "T.min(low[0], x[T.min(vk, 498)])"),
        ),
        _rare(
            "minimum of a vector without its first",
            edit("T.min(low[0], x[vk])", "T.min(low[0], x[T.max(vk, 1)])"),
        ),
        _rare(
            "all of a vector without its last",
            edit("every[0] and yes[vk]", "every[0] and (yes[vk] or vk == 299)"),
        ),
        _rare(
            "all of a vector without its first",
            edit("every[0] and yes[vk]", "every[0] and (yes[vk] or vk == 0)"),
        ),
        _rare(
            "any of a vector without its last",
            edit("some[0] or yes[vk]", "some[0] or (yes[vk] and vk != 299)"),
        ),
        _rare(
            "any of a vector without its first",
            edit("some[0] or yes[vk]", "some[0] or (yes[vk] and vk != 0)"),
        ),
        _rare("all for any", edit("some[0] = T.bool(False)", "some[0] = T.bool(True)")),
        _rare(
            "epsilon of a vector outside the root",
            edit(_ROOT, "(T.sqrt(square[0]) + T.float32(1e-10))"),
        ),
        _rare("epsilon of a vector dropped", edit(_ROOT, "T.sqrt(square[0])")),
        right(
            "maximum by the least of the negated",
            edit("T.max(top[0], x[vk])", "-T.min(-top[0], -x[vk])"),
        ),
        right("extremes start at the first element", edit("T.float32(-3.4e38)", "x[0]")),
        right(
            "any as not all not", edit("some[0] or yes[vk]", "not ((not some[0]) and not yes[vk])")
        ),
        right(
            "norm by a reciprocal", edit(f"x[vi] / {_ROOT}", f"x[vi] * (T.float32(1) / {_ROOT})")
        ),
    ),
)

_CHANNELS = """
for n, c, i, j in T.grid(3, 5, 7, 9):
    with T.sblock("top"):
        vc, vn, vi, vj = T.axis.remap("SRRR", [c, n, i, j])
        with T.init():
            top[vc] = T.float32(-3.4e38)
        top[vc] = T.max(top[vc], x[vn, vc, vi, vj])
for i, j in T.grid(150, 3):
    with T.sblock("every"):
        vj, vi = T.axis.remap("SR", [j, i])
        with T.init():
            every[vj] = T.bool(True)
        every[vj] = every[vj] and yes[vi, vj]
for i, j in T.grid(150, 3):
    with T.sblock("some"):
        vj, vi = T.axis.remap("SR", [j, i])
        with T.init():
            some[vj] = T.bool(False)
        some[vj] = some[vj] or yes[vi, vj]
"""
_TOP = "x[vn, vc, vi, vj]"
_TOP_IN_TILES = """
for c in range(5):
    top[c] = x[2, c, 6, 8]
    for n, i, t, j in T.grid(3, 7, 2, 5):
        top[c] = T.max(x[2 - n, c, i, t * 4 + j], top[c])
""" + _CHANNELS[_CHANNELS.index("for i, j in T.grid(150, 3)") :]

CHANNELS = Subject(
    "channels and columns",
    tensors(
        x=("float32", 3, 5, 7, 9),
        yes=("bool", 150, 3),
        top=("float32", 5),
        every=("bool", 3),
        some=("bool", 3),
    ),
    _CHANNELS,
    (
        _rare("maximum of a channel starts at zero", edit("T.float32(-3.4e38)", "T.float32(0)")),
        _rare(
            "maximum of a channel without its corner",
            edit(
                _TOP, f"T.if_then_else(vn == 2 and vi == 6 and vj == 8, T.float32(-3e38), {_TOP})"
            ),
        ),
        _rare(
            "all of a column without its last",
            edit("yes[vi, vj]\nfor", "(yes[vi, vj] or vi == 149)\nfor"),
        ),
        _rare(
            "any of a column without its first",
            edit("some[vj] or yes[vi, vj]", "some[vj] or (yes[vi, vj] and vi != 0)"),
        ),
        _rare(
            "all of a column is False",
            edit("every[vj] = T.bool(True)", "every[vj] = T.bool(False)"),
        ),
        right("maximum of a channel in tiles that overlap", body(_TOP_IN_TILES)),
    ),
)

_LONG = """
for i, k in T.grid(30, 40):
    with T.sblock("top"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            top[vi] = T.int64(-9223372036854775807)
        top[vi] = T.max(top[vi], a[vi, vk])
for i, k in T.grid(30, 40):
    with T.sblock("low"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            low[vi] = T.int8(127)
        low[vi] = T.min(low[vi], b[vi, vk])
for i, j, k in T.grid(8, 9, 6):
    with T.sblock("product"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            product[vi, vj] = T.int32(0)
        product[vi, vj] = product[vi, vj] + p[vi, vk] * q[vk, vj]
for i in range(64):
    with T.sblock("later"):
        vi = T.axis.spatial(64, i)
        later[vi] = s[vi] > t[vi]
"""

LONG_INTEGERS = Subject(
    "selected integers",
    tensors(
        a=("int64", 30, 40),
        b=("int8", 30, 40),
        p=("int32", 8, 6),
        q=("int32", 6, 9),
        s=("uint64", 64),
        t=("uint64", 64),
        top=("int64", 30),
        low=("int8", 30),
        product=("int32", 8, 9),
        later=("bool", 64),
    ),
    _LONG,
    (
        _rare(
            "maximum of int64 starts at the least int32",
            edit("T.int64(-9223372036854775807)", "T.int64(-2147483648)"),
        ),
        _rare("minimum of bytes starts at zero", edit("T.int8(127)", "T.int8(0)")),
        _rare(
            "maximum of int64 through int32",
            edit("a[vi, vk]", 'T.Cast("int64", T.Cast("int32", a[vi, vk]))'),
        ),
        wrong(
            "first factor in int16",
            "types",
            edit("p[vi, vk] *", 'T.Cast("int32", T.Cast("int16", p[vi, vk])) *'),
        ),
        wrong(
            "second factor in int16",
            "types",
            edit("* q[vk, vj]", '* T.Cast("int32", T.Cast("int16", q[vk, vj]))'),
        ),
        wrong(
            "uint64 compared as signed",
            "signs",
            edit("s[vi] > t[vi]", 'T.Cast("int64", s[vi]) > T.Cast("int64", t[vi])'),
        ),
        wrong(
            "uint64 compared as uint32",
            "types",
            edit("s[vi] > t[vi]", 'T.Cast("uint32", s[vi]) > T.Cast("uint32", t[vi])'),
        ),
        right("not less or equal", edit("s[vi] > t[vi]", "not (s[vi] <= t[vi])")),
    ),
)

_NARROW_SOFTMAX = """
top = T.sblock_alloc_buffer((12,), "{0}")
total = T.sblock_alloc_buffer((12,), "{0}")
for i, k in T.grid(12, 20):
    with T.sblock("top"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            top[vi] = T.{0}(-6e4)
        top[vi] = T.max(top[vi], x[vi, vk])
for i, k in T.grid(12, 20):
    with T.sblock("total"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            total[vi] = T.{0}(0)
        total[vi] = total[vi] + T.exp(x[vi, vk] - top[vi])
for i, j in T.grid(12, 20):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = T.exp(x[vi, vj] - top[vi]) / total[vi]
"""


def _softmax(dtype: str) -> Subject:
    start = f"T.{dtype}(-6e4)"
    return Subject(
        f"{dtype} softmax",
        tensors(x=(dtype, 12, 20), y=(dtype, 12, 20)),
        _NARROW_SOFTMAX.format(dtype),
        (
            _rare(f"maximum of {dtype} starts at zero", edit(start, f"T.{dtype}(0)")),
            _rare(f"{dtype} softmax without its maximum", edit(" - top[vi]", "")),
            right(f"{dtype} softmax from the end", edit("x[vi, vk]", "x[vi, 19 - vk]")),
        ),
    )


HALF_SOFTMAX = _softmax("float16")
DOUBLE_SOFTMAX = _softmax("float64")
