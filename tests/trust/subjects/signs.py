"""Wrong floating-point numbers at the ends of their types, below the normal ones, and at zero."""

from __future__ import annotations

from tests.trust.attack import Subject, edit, right, tensors, wrong

_ZERO = "T.float32(0)"
_BITS = """
for i in T.serial(300):
    with T.sblock("all"):
        vi = T.axis.spatial(300, i)
        bits[vi] = T.reinterpret("int32", x[vi])
        product[vi] = T.reinterpret("int32", x[vi] * y[vi])
        lower[vi] = T.shift_right(T.reinterpret("uint32", y[vi]), T.uint32(31))
        turned[vi] = T.reinterpret("int32", T.float32(0) - z[vi])
        sign[vi] = T.copysign(T.float32(1), z[vi])
        angle[vi] = T.atan2(T.float32(0) * w[vi], w[vi])
        half[vi] = T.reinterpret("int16", h[vi])
        relu[vi] = T.reinterpret("int32", T.max(x[vi], T.float32(0)))
"""


def _unsigned(value: str, dtype: str = "float32") -> str:
    # A sum with zero would do, but TVM simplifies it.
    return f"T.Select({value} == T.{dtype}(0), T.{dtype}(0), {value})"


SIGNS = Subject(
    "signs of zero",
    tensors(
        x=("float32", 300),
        y=("float32", 300),
        z=("float32", 300),
        w=("float32", 300),
        h=("float16", 300),
        bits=("int32", 300),
        product=("int32", 300),
        lower=("uint32", 300),
        turned=("int32", 300),
        sign=("float32", 300),
        angle=("float32", 300),
        half=("int16", 300),
        relu=("int32", 300),
    ),
    _BITS,
    (
        wrong(
            "bits of zero without its sign",
            "signs",
            edit('T.reinterpret("int32", x[vi])', f'T.reinterpret("int32", {_unsigned("x[vi]")})'),
        ),
        wrong(
            "bits of a product plus zero",
            "signs",
            edit("x[vi] * y[vi])", f"{_unsigned('x[vi] * y[vi]')})"),
        ),
        wrong(
            "sign bit by a comparison",
            "signs",
            edit(
                'T.shift_right(T.reinterpret("uint32", y[vi]), T.uint32(31))',
                f'T.Cast("uint32", y[vi] < {_ZERO})',
            ),
        ),
        wrong(
            "sign by a comparison",
            "signs",
            edit(
                "T.copysign(T.float32(1), z[vi])",
                f"T.Select(z[vi] < {_ZERO}, T.float32(-1), T.float32(1))",
            ),
        ),
        wrong("sign dropped", "signs", edit("T.copysign(T.float32(1), z[vi])", "T.float32(1)")),
        wrong(
            "zero minus for a negation",
            "signs",
            edit("T.float32(0) - z[vi]", "T.float32(-1) * z[vi]"),
        ),
        wrong(
            "angle of zero without its sign",
            "signs",
            edit(
                "T.atan2(T.float32(0) * w[vi], w[vi])",
                f"T.Select(w[vi] < {_ZERO}, T.atan2(T.float32(0) * w[vi], w[vi]), {_ZERO})",
            ),
        ),
        right(
            "sign by its bit",
            edit(
                "T.copysign(T.float32(1), z[vi])",
                'T.Select(T.shift_right(T.reinterpret("uint32", z[vi]), T.uint32(31)) '
                "== T.uint32(0), T.float32(1), T.float32(-1))",
            ),
        ),
        right("factors of bits exchanged", edit("x[vi] * y[vi])", "y[vi] * x[vi])")),
        right(
            "bits of a relu by a comparison",
            edit(f"T.max(x[vi], {_ZERO})", f"T.Select(x[vi] > {_ZERO}, x[vi], {_ZERO})"),
        ),
        wrong(
            "bits of a relu that keeps the sign of zero",
            "signs",
            edit(f"T.max(x[vi], {_ZERO})", f"T.Select(x[vi] >= {_ZERO}, x[vi], {_ZERO})"),
        ),
        wrong(
            "bits of float16 without the sign of zero",
            "signs",
            edit("h[vi])", f"{_unsigned('h[vi]', 'float16')})"),
        ),
    ),
)

_ENDS = """
for i in T.serial(300):
    with T.sblock("all"):
        vi = T.axis.spatial(300, i)
        same[vi] = x[vi]
        larger[vi] = T.max(x[vi], y[vi])
        half[vi] = h[vi]
        brain[vi] = b[vi]
        double[vi] = d[vi]
        grown[vi] = T.Cast("float32", h[vi])
        fifth[vi] = T.max(y[vi], T.float32(0))
        scaled[vi] = z[vi] * T.float32(1e30)
"""
_KIND = "ends of types"
FLOAT_ENDS = Subject(
    "ends of floats",
    tensors(
        x=("float32", 300),
        y=("float32", 300),
        z=("float32", 300),
        h=("float16", 300),
        b=("bfloat16", 300),
        d=("float64", 300),
        same=("float32", 300),
        larger=("float32", 300),
        half=("float16", 300),
        brain=("bfloat16", 300),
        double=("float64", 300),
        grown=("float32", 300),
        fifth=("float32", 300),
        scaled=("float32", 300),
    ),
    _ENDS,
    (
        wrong(
            "float32 bounded by 1e38",
            _KIND,
            edit("same[vi] = x[vi]", "same[vi] = T.min(x[vi], T.float32(1e38))"),
        ),
        wrong(
            "a copy of float32 through float16",
            _KIND,
            edit("same[vi] = x[vi]", 'same[vi] = T.Cast("float32", T.Cast("float16", x[vi]))'),
        ),
        wrong(
            "larger from -1e37",
            _KIND,
            edit("T.max(x[vi], y[vi])", "T.max(T.max(x[vi], y[vi]), T.float32(-1e37))"),
        ),
        wrong(
            "denormal numbers flushed",
            _KIND,
            edit(
                "T.max(y[vi], T.float32(0))",
                "T.Select(y[vi] < T.float32(1.1754943508222875e-38), T.float32(0), y[vi])",
            ),
        ),
        wrong(
            "float16 below its largest",
            _KIND,
            edit("half[vi] = h[vi]", "half[vi] = T.min(h[vi], T.float16(65472))"),
        ),
        wrong(
            "float16 above its least",
            _KIND,
            edit("half[vi] = h[vi]", "half[vi] = T.max(h[vi], T.float16(-65472))"),
        ),
        wrong(
            "denormal float16 flushed",
            _KIND,
            edit(
                'T.Cast("float32", h[vi])',
                "T.if_then_else(T.abs(h[vi]) < T.float16(6e-5), T.float32(0), "
                'T.Cast("float32", h[vi]))',
            ),
        ),
        wrong(
            "bfloat16 bounded by 1e38",
            _KIND,
            edit("brain[vi] = b[vi]", "brain[vi] = T.min(b[vi], T.bfloat16(1e38))"),
        ),
        wrong(
            "float64 bounded by float32",
            _KIND,
            edit(
                "double[vi] = d[vi]", "double[vi] = T.min(d[vi], T.float64(3.4028234663852886e38))"
            ),
        ),
        wrong(
            "float64 through float32",
            _KIND,
            edit("double[vi] = d[vi]", 'double[vi] = T.Cast("float64", T.Cast("float32", d[vi]))'),
        ),
        right(
            "larger by a comparison",
            edit("T.max(x[vi], y[vi])", "T.Select(x[vi] > y[vi], x[vi], y[vi])"),
        ),
        right(
            "half through float32",
            edit("half[vi] = h[vi]", 'half[vi] = T.Cast("float16", T.Cast("float32", h[vi]))'),
        ),
        right(
            "relu that keeps the sign of zero",
            edit("T.max(y[vi], T.float32(0))", f"T.Select(y[vi] >= {_ZERO}, y[vi], {_ZERO})"),
        ),
        right(
            "relu by a comparison",
            edit("T.max(y[vi], T.float32(0))", f"T.Select(y[vi] > {_ZERO}, y[vi], {_ZERO})"),
        ),
    ),
)
