"""Wrong arithmetic of floating-point numbers, which only some values show."""

from __future__ import annotations

from tests.trust.attack import Subject, edit, right, tensors, wrong

_X, _Y = "x[vi]", "y[vi]"
_HALF = "T.float32(0.5)"
_AWAY = f"T.Select({_X} < T.float32(0), T.ceil({_X} - {_HALF}), T.floor({_X} + {_HALF}))"
_BODY = """
for i in T.serial(400):
    with T.sblock("all"):
        vi = T.axis.spatial(400, i)
        top[vi] = T.min(x[vi], T.float32(1))
        shifted[vi] = T.max(x[vi] - T.float32(2), T.float32(0))
        band[vi] = T.max(T.min(y[vi], T.float32(20)), T.float32(-20))
        floor[vi] = T.floor(x[vi])
        nearest[vi] = T.nearbyint(x[vi])
        chosen[vi] = T.Select(x[vi] > T.float32(3), x[vi] * y[vi], y[vi])
        leaky[vi] = T.Select(x[vi] >= T.float32(0), x[vi], x[vi] * T.float32(0.125))
        below[vi] = x[vi] <= y[vi]
        zero[vi] = T.Select(x[vi] == T.float32(0), T.float32(-1), x[vi])
        size[vi] = T.abs(y[vi])
"""

FLOATS = Subject(
    "floats",
    tensors(
        x=("float32", 400),
        y=("float32", 400),
        top=("float32", 400),
        shifted=("float32", 400),
        band=("float32", 400),
        floor=("float32", 400),
        nearest=("float32", 400),
        chosen=("float32", 400),
        leaky=("float32", 400),
        below=("bool", 400),
        zero=("float32", 400),
        size=("float32", 400),
    ),
    _BODY,
    (
        wrong("minimum with one dropped", "rare values", edit(f"T.min({_X}, T.float32(1))", _X)),
        wrong(
            "relu(x - 2) is zero",
            "rare values",
            edit(f"T.max({_X} - T.float32(2), T.float32(0))", "T.float32(0)"),
        ),
        wrong(
            "upper bound of floats dropped",
            "rare values",
            edit(f"T.min({_Y}, T.float32(20))", _Y),
        ),
        wrong(
            "lower bound of floats dropped",
            "rare values",
            edit("T.float32(-20)", "T.float32(-1e30)"),
        ),
        wrong("floor towards zero", "signs", edit("T.floor", "T.trunc")),
        wrong("floor is the nearest", "rare values", edit("T.floor", "T.nearbyint")),
        wrong("nearest is the floor", "rare values", edit("T.nearbyint", "T.floor")),
        wrong("halves rounded away from zero", "rare values", edit("T.nearbyint(x[vi])", _AWAY)),
        wrong(
            "halves rounded up",
            "rare values",
            edit("T.nearbyint(x[vi])", "T.floor(x[vi] + T.float32(0.5))"),
        ),
        wrong(
            "a side of a Select dropped",
            "rare values",
            edit(f"T.Select({_X} > T.float32(3), {_X} * {_Y}, {_Y})", _Y),
        ),
        wrong(
            "the sides of a Select exchanged",
            "rare values",
            edit(f"{_X} > T.float32(3)", f"{_X} <= T.float32(3)"),
        ),
        wrong("slope of one", "signs", edit("T.float32(0.125)", "T.float32(1)")),
        wrong("less for less or equal", "rare values", edit(f"{_X} <= {_Y}", f"{_X} < {_Y}")),
        wrong(
            "the case of zero dropped",
            "rare values",
            edit(f"T.Select({_X} == T.float32(0), T.float32(-1), {_X})", _X),
        ),
        wrong("magnitude dropped", "signs", edit(f"T.abs({_Y})", _Y)),
        right(
            "bounds of floats in the other order",
            edit(
                f"T.max(T.min({_Y}, T.float32(20)), T.float32(-20))",
                f"T.min(T.max({_Y}, T.float32(-20)), T.float32(20))",
            ),
        ),
        right(
            "a Select as two branches",
            edit(
                f"chosen[vi] = T.Select({_X} > T.float32(3), {_X} * {_Y}, {_Y})",
                f"if {_X} > T.float32(3):\n            chosen[vi] = {_X} * {_Y}\n"
                f"        else:\n            chosen[vi] = {_Y}",
            ),
        ),
        right("nearest by another name", edit("T.nearbyint", "T.round")),
        right(
            "magnitude as a Select",
            edit(f"T.abs({_Y})", f"T.Select({_Y} < T.float32(0), T.float32(0) - {_Y}, {_Y})"),
        ),
    ),
)

_ROOTS = """
for i in T.serial(300):
    with T.sblock("roots"):
        vi = T.axis.spatial(300, i)
        y[vi] = T.sqrt(x[vi]) + T.max(z[vi], T.float32(0))
"""
# The square root of a negative number is not a number, which must not keep z from being negative.
ROOTS = Subject(
    "square roots",
    tensors(x=("float32", 300), z=("float32", 300), y=("float32", 300)),
    _ROOTS,
    (
        wrong(
            "relu beside a square root dropped",
            "rare values",
            edit("T.max(z[vi], T.float32(0))", "z[vi]"),
        ),
        wrong(
            "square root of the magnitude minus one",
            "arithmetic",
            edit("T.sqrt(x[vi])", "T.sqrt(x[vi]) - T.float32(1)"),
        ),
        right(
            "terms exchanged",
            edit(
                "T.sqrt(x[vi]) + T.max(z[vi], T.float32(0))",
                "T.max(z[vi], T.float32(0)) + T.sqrt(x[vi])",
            ),
        ),
    ),
)

_TINY = """
for i in T.serial(256):
    with T.sblock("tiny"):
        vi = T.axis.spatial(256, i)
        y[vi] = x[vi] * T.float32(1e-20) * T.float32(1e-22)
"""
TINY = Subject(
    "denormal numbers",
    tensors(x=("float32", 256), y=("float32", 256)),
    _TINY,
    (
        wrong(
            "denormal results are zero",
            "rare values",
            edit("x[vi] * T.float32(1e-20)", "T.float32(0) * T.float32(1e-20)"),
        ),
        wrong(
            "denormal results doubled", "arithmetic", edit("T.float32(1e-22)", "T.float32(2e-22)")
        ),
        right(
            "denormal results by other roundings",
            edit("T.float32(1e-20) * T.float32(1e-22)", "T.float32(1e-22) * T.float32(1e-20)"),
        ),
        right(
            "denormal results by one factor",
            edit(
                "x[vi] * T.float32(1e-20) * T.float32(1e-22)",
                'T.Cast("float32", T.Cast("float64", x[vi]) * T.float64(1e-42))',
            ),
        ),
    ),
)

_WIDE = """
for i in T.serial(256):
    with T.sblock("wide"):
        vi = T.axis.spatial(256, i)
        total[vi] = p[vi] + q[vi] * T.float64(3)
        product[vi] = m[vi] * n[vi]
        later[vi] = s[vi] > t[vi]
        grown[vi] = T.Cast("int32", w[vi]) + 1
"""
WIDE = Subject(
    "wide types",
    tensors(
        p=("float64", 256),
        q=("float64", 256),
        m=("int64", 256),
        n=("int64", 256),
        s=("uint32", 256),
        t=("uint32", 256),
        w=("uint16", 256),
        total=("float64", 256),
        product=("int64", 256),
        later=("bool", 256),
        grown=("int32", 256),
    ),
    _WIDE,
    (
        wrong(
            "float64 in float32",
            "types",
            edit(
                "q[vi] * T.float64(3)", 'T.Cast("float64", T.Cast("float32", q[vi])) * T.float64(3)'
            ),
        ),
        wrong(
            "int64 in int32",
            "types",
            edit("m[vi] * n[vi]", 'T.Cast("int64", T.Cast("int32", m[vi])) * n[vi]'),
        ),
        wrong(
            "int64 product in int32",
            "types",
            edit(
                "m[vi] * n[vi]", 'T.Cast("int64", T.Cast("int32", m[vi]) * T.Cast("int32", n[vi]))'
            ),
        ),
        wrong(
            "uint32 compared as signed",
            "signs",
            edit("s[vi] > t[vi]", 'T.Cast("int32", s[vi]) > T.Cast("int32", t[vi])'),
        ),
        wrong(
            "uint16 extended as signed",
            "signs",
            edit('T.Cast("int32", w[vi])', 'T.Cast("int32", T.Cast("int16", w[vi]))'),
        ),
        right(
            "three terms for a factor of three",
            edit("q[vi] * T.float64(3)", "(q[vi] + (q[vi] + q[vi]))"),
        ),
        right("factors exchanged", edit("m[vi] * n[vi]", "n[vi] * m[vi]")),
    ),
)
