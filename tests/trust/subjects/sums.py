"""Wrong long sums, extremes, truth values and quantised products."""

from __future__ import annotations

from tests.trust.attack import Subject, body, edit, right, tensors, wrong

_LONG = """
for k in range(1048576):
    with T.sblock("y"):
        vk = T.axis.reduce(1048576, k)
        with T.init():
            y[0] = T.float32(0)
        y[0] = y[0] + x[vk]
"""
_LONG_PARTS = """
part = T.sblock_alloc_buffer((1024,), "float32")
for p in T.parallel(1024):
    part[p] = T.float32(0)
    for k in range(1024):
        part[p] = part[p] + x[p * 1024 + k]
y[0] = T.float32(0)
for p in range(1024):
    y[0] = y[0] + part[p]
"""

LONG = Subject(
    "a million terms",
    tensors(x=("float32", 1048576), y=("float32", 1)),
    _LONG,
    (
        wrong("last of a million terms dropped", "edges", edit("1048576", "1048575")),
        wrong(
            "one in the middle of a million terms dropped",
            "edges",
            edit("y[0] + x[vk]", "y[0] + T.if_then_else(vk == 300000, T.float32(0), x[vk])"),
        ),
        wrong("last 64 of a million terms dropped", "edges", edit("1048576", "1048512")),
        wrong(
            "one of 1024 parts dropped",
            "edges",
            body(
                _LONG_PARTS.replace("for p in range(1024):\n    y", "for p in range(1023):\n    y")
            ),
        ),
        right("1024 partial sums", body(_LONG_PARTS)),
    ),
)

_EXTREMES = """
for i, k in T.grid(6, 1000):
    with T.sblock("top"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            top[vi] = T.float32(-3.4e38)
        top[vi] = T.max(top[vi], x[vi, vk])
for i, k in T.grid(6, 200):
    with T.sblock("all"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            every[vi] = T.bool(True)
        every[vi] = every[vi] and yes[vi, vk]
for i, k in T.grid(6, 200):
    with T.sblock("any"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            some[vi] = T.bool(False)
        some[vi] = some[vi] or yes[vi, vk]
"""

EXTREMES = Subject(
    "extremes",
    tensors(
        x=("float32", 6, 1000),
        yes=("bool", 6, 200),
        top=("float32", 6),
        every=("bool", 6),
        some=("bool", 6),
    ),
    _EXTREMES,
    (
        wrong("maximum without its last", "rare values", edit("T.grid(6, 1000)", "T.grid(6, 999)")),
        wrong(
            "maximum of the first half of 1000", "edges", edit("T.grid(6, 1000)", "T.grid(6, 500)")
        ),
        wrong(
            "maximum of 1000 starts at zero",
            "rare values",
            edit("T.float32(-3.4e38)", "T.float32(0)"),
        ),
        wrong(
            "all without the last",
            "rare values",
            edit("every[vi] and yes[vi, vk]", "every[vi] and (yes[vi, vk] or vk == 199)"),
        ),
        wrong(
            "all of the first half",
            "rare values",
            edit("every[vi] and yes[vi, vk]", "every[vi] and (yes[vi, vk] or vk >= 100)"),
        ),
        wrong(
            "any without the last",
            "rare values",
            edit("some[vi] or yes[vi, vk]", "some[vi] or (yes[vi, vk] and vk != 199)"),
        ),
        wrong(
            "all is False",
            "rare values",
            edit("every[vi] = T.bool(True)", "every[vi] = T.bool(False)"),
        ),
        wrong(
            "any is True",
            "rare values",
            edit("some[vi] = T.bool(False)", "some[vi] = T.bool(True)"),
        ),
        right("all by counting down", edit("yes[vi, vk]", "yes[vi, 199 - vk]")),
    ),
)

_QUANTISED = """
total = T.sblock_alloc_buffer((32, 24), "int32")
scaled = T.sblock_alloc_buffer((32, 24), "float32")
for i, j, k in T.grid(32, 24, 64):
    with T.sblock("total"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            total[vi, vj] = 0
        total[vi, vj] = (
            total[vi, vj] + (T.Cast("int32", x[vi, vk]) - 3) * T.Cast("int32", w[vk, vj])
        )
for i, j in T.grid(32, 24):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        scaled[vi, vj] = T.Cast("float32", total[vi, vj]) * T.float32(0.00390625)
        y[vi, vj] = T.Cast(
            "int8", T.max(T.min(T.Cast("int32", T.nearbyint(scaled[vi, vj])) + 5, 127), -128)
        )
"""
_ZERO_POINT_LATER = """
total = T.sblock_alloc_buffer((32, 24), "int32")
scaled = T.sblock_alloc_buffer((32, 24), "float32")
weights = T.sblock_alloc_buffer((24,), "int32")
for j in range(24):
    weights[j] = 0
    for k in range(64):
        weights[j] = weights[j] + T.Cast("int32", w[k, j])
for i, j in T.grid(32, 24):
    total[i, j] = weights[j] * (-3)
    for k in range(64):
        total[i, j] = total[i, j] + T.Cast("int32", x[i, k]) * T.Cast("int32", w[k, j])
    scaled[i, j] = T.Cast("float32", total[i, j]) * T.float32(0.00390625)
    y[i, j] = T.Cast(
        "int8", T.max(T.min(T.Cast("int32", T.nearbyint(scaled[i, j])) + 5, 127), -128)
    )
"""

QUANTISED = Subject(
    "quantised product",
    tensors(x=("int8", 32, 64), w=("int8", 64, 24), y=("int8", 32, 24)),
    _QUANTISED,
    (
        wrong("zero point of the input dropped", "initial values", edit(" - 3)", " - 0)")),
        wrong("zero point of the output dropped", "tolerance", edit(" + 5, 127", ", 127")),
        wrong("zero point of the output off by one", "tolerance", edit(" + 5, 127", " + 4, 127")),
        wrong(
            "wraps where it should saturate",
            "rare values",
            edit("T.max(T.min(", ""),
            edit(" + 5, 127), -128)", " + 5"),
        ),
        wrong(
            "upper bound of the output dropped",
            "rare values",
            edit("T.max(T.min(", "T.max(("),
            edit(" + 5, 127), -128)", " + 5), -128)"),
        ),
        wrong("rounded down", "tolerance", edit("T.nearbyint", "T.floor")),
        wrong(
            "sum in int16",
            "types",
            edit(
                'total = T.sblock_alloc_buffer((32, 24), "int32")',
                'total = T.sblock_alloc_buffer((32, 24), "int16")',
            ),
            edit("total[vi, vj] = 0", "total[vi, vj] = T.int16(0)"),
            edit("total[vi, vj] + (", 'total[vi, vj] + T.Cast("int16", ('),
            edit('T.Cast("int32", w[vk, vj])', 'T.Cast("int32", w[vk, vj]))'),
        ),
        wrong(
            "last of 64 products dropped",
            "tolerance",
            edit("T.grid(32, 24, 64)", "T.grid(32, 24, 63)"),
        ),
        wrong(
            "weights as unsigned bytes",
            "signs",
            edit('T.Cast("int32", w[vk, vj])', 'T.Cast("int32", T.Cast("uint8", w[vk, vj]))'),
        ),
        right("zero point added at the end", body(_ZERO_POINT_LATER)),
    ),
)
