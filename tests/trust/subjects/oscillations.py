"""Functions behind long sums that rounding decides on usual inputs, and numbers beyond 32 bits."""

from __future__ import annotations

from tests.trust.attack import Subject, edit, right, tensors, wrong

_SUM = """
s = T.sblock_alloc_buffer((40, 40), "float32")
for i, j, k in T.grid(40, 40, 2048):
    with T.sblock("s"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            s[vi, vj] = T.float32(0)
        s[vi, vj] = s[vi, vj] + a[vi, vk] * b[vk, vj]
for i, j in T.grid(40, 40):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = T.sin(s[vi, vj])
"""
_PRODUCT = "a[vi, vk] * b[vk, vj]"
_FROM_THE_END = (edit("vk]", "2047 - vk]"), edit("b[vk", "b[2047 - vk"))
_TENSORS = tensors(a=("float32", 40, 2048), b=("float32", 2048, 40), y=("float32", 40, 40))


def _without(lost: str) -> str:
    return f"T.if_then_else({lost}, T.float32(0), {_PRODUCT})"


SINE = Subject(
    "sine of a product",
    _TENSORS,
    _SUM,
    (
        wrong("last tile below a sine dropped", "edges", edit(_PRODUCT, _without("vk >= 2032"))),
        wrong("last term below a sine dropped", "edges", edit(_PRODUCT, _without("vk == 2047"))),
        wrong(
            "sums below a sine begin at another number",
            "arithmetic",
            edit("s[vi, vj] = T.float32(0)", "s[vi, vj] = T.float32(0.01)"),
        ),
        wrong("argument for the sine", "arithmetic", edit("T.sin(s[vi, vj])", "s[vi, vj]")),
        right("terms below a sine from the end", *_FROM_THE_END),
        right(
            "sine as a shifted cosine",
            edit("T.sin(s[vi, vj])", "T.cos(s[vi, vj] - T.float32(1.5707963267948966))"),
        ),
    ),
)
FRACTION = Subject(
    "fraction of a product",
    _TENSORS,
    _SUM.replace("T.sin(s[vi, vj])", "s[vi, vj] - T.floor(s[vi, vj])"),
    (
        wrong(
            "last tile below a fraction dropped", "edges", edit(_PRODUCT, _without("vk >= 2032"))
        ),
        wrong("fraction towards zero", "signs", edit("T.floor", "T.trunc")),
        right("terms below a fraction from the end", *_FROM_THE_END),
        right(
            "fraction by the ceiling of the negated",
            edit("T.floor(s[vi, vj])", "(T.float32(0) - T.ceil(T.float32(0) - s[vi, vj]))"),
        ),
    ),
)

_BEYOND = """
for i in T.serial(300):
    with T.sblock("all"):
        vi = T.axis.spatial(300, i)
        below[vi] = T.floor(x[vi] * T.float64(0.5))
        nearest[vi] = T.nearbyint(z[vi] * T.float32(0.5))
        whole[vi] = T.Cast("int64", x[vi]) * T.int64(2)
        third[vi] = n[vi] // T.int64(3)
        limited[vi] = T.Cast("int8", T.max(T.min(x[vi], T.float64(127)), T.float64(-128)))
"""
BEYOND = Subject(
    "whole numbers beyond 32 bits",
    tensors(
        x=("float64", 300),
        z=("float32", 300),
        n=("int64", 300),
        below=("float64", 300),
        nearest=("float32", 300),
        whole=("int64", 300),
        third=("int64", 300),
        limited=("int8", 300),
    ),
    _BEYOND,
    (
        wrong(
            "floor of float64 through int32",
            "types",
            edit(
                "T.floor(x[vi] * T.float64(0.5))",
                'T.Cast("float64", T.Cast("int32", T.floor(x[vi] * T.float64(0.5))))',
            ),
        ),
        wrong(
            "nearest of float32 through int32",
            "types",
            edit(
                "T.nearbyint(z[vi] * T.float32(0.5))",
                'T.Cast("float32", T.Cast("int32", T.nearbyint(z[vi] * T.float32(0.5))))',
            ),
        ),
        wrong(
            "float64 to int64 through int32",
            "types",
            edit('T.Cast("int64", x[vi])', 'T.Cast("int64", T.Cast("int32", x[vi]))'),
        ),
        wrong(
            "quotient of int64 through int32",
            "types",
            edit("n[vi] // T.int64(3)", 'T.Cast("int64", T.Cast("int32", n[vi])) // T.int64(3)'),
        ),
        right(
            "floor by the ceiling of the negated",
            edit(
                "T.floor(x[vi] * T.float64(0.5))",
                "T.float64(0) - T.ceil(x[vi] * T.float64(-0.5))",
            ),
        ),
        right(
            "a sum for the double of an int64",
            edit(
                'T.Cast("int64", x[vi]) * T.int64(2)',
                'T.Cast("int64", x[vi]) + T.Cast("int64", x[vi])',
            ),
        ),
        right(
            "bounds of float64 in the other order",
            edit(
                "T.max(T.min(x[vi], T.float64(127)), T.float64(-128))",
                "T.min(T.max(x[vi], T.float64(-128)), T.float64(127))",
            ),
        ),
    ),
)
