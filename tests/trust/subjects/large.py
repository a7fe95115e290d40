"""Rare sides of the branches of large programs, whose inputs are drawn a few times only."""

from __future__ import annotations

from tests.trust.attack import Subject, edit, right, tensors, wrong

_KIND = "sides of large programs"

_TERM = "T.max(T.min(a[vi] * b[vk], T.float32(20000)), T.float32(-30000))"
_SUM = f"""
for i, k in T.grid(3200, 3200):
    with T.sblock("total"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            total[vi] = T.float32(0)
        total[vi] = total[vi] + {_TERM}
"""
SUM = Subject(
    "sums of 10 million bounded terms",
    tensors(a=("float32", 3200), b=("float32", 3200), total=("float32", 3200)),
    _SUM,
    (
        wrong(
            "upper bound of 10 million terms dropped",
            _KIND,
            edit("T.min(a[vi] * b[vk], T.float32(20000))", "a[vi] * b[vk]"),
        ),
        wrong(
            "lower bound of 10 million terms dropped",
            _KIND,
            edit("T.float32(-30000)", "T.float32(-3e38)"),
        ),
        right(
            "bounds of 10 million terms in the other order",
            edit(_TERM, "T.min(T.max(a[vi] * b[vk], T.float32(-30000)), T.float32(20000))"),
        ),
    ),
)

_PRODUCT = """
product = T.sblock_alloc_buffer((240, 240), "float32")
for i, j, k in T.grid(240, 240, 240):
    with T.sblock("product"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            product[vi, vj] = T.float32(0)
        product[vi, vj] = product[vi, vj] + a[vi, vk] * b[vk, vj]
for i, j in T.grid(240, 240):
    with T.sblock("bounded"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = T.min(product[vi, vj] * T.float32(0.5) + bias[vj], T.float32(300000))
for i, j in T.grid(240, 240):
    with T.sblock("slope"):
        vi, vj = T.axis.remap("SS", [i, j])
        z[vi, vj] = T.Select(product[vi, vj] < T.float32(-9e5), T.float32(-9e5), product[vi, vj])
"""
PRODUCT = Subject(
    "bounds behind a product",
    tensors(
        a=("float32", 240, 240),
        b=("float32", 240, 240),
        bias=("float32", 240),
        y=("float32", 240, 240),
        z=("float32", 240, 240),
    ),
    _PRODUCT,
    (
        wrong(
            "minimum behind a product dropped",
            _KIND,
            edit(
                "T.min(product[vi, vj] * T.float32(0.5) + bias[vj], T.float32(300000))",
                "product[vi, vj] * T.float32(0.5) + bias[vj]",
            ),
        ),
        wrong(
            "a Select behind a product dropped",
            _KIND,
            edit(
                "T.Select(product[vi, vj] < T.float32(-9e5), T.float32(-9e5), product[vi, vj])",
                "product[vi, vj]",
            ),
        ),
        right(
            "a Select behind a product as a maximum",
            edit(
                "T.Select(product[vi, vj] < T.float32(-9e5), T.float32(-9e5), product[vi, vj])",
                "T.max(product[vi, vj], T.float32(-9e5))",
            ),
        ),
    ),
)

_QUANTISED = """
for i, j in T.grid(2400, 2200):
    with T.sblock("q"):
        vi, vj = T.axis.remap("SS", [i, j])
        q[vi, vj] = T.Cast("int8", T.max(T.min(
            T.round(x[vi, vj] * T.float32(0.05)), T.float32(127)), T.float32(-128)))
for i, j in T.grid(2400, 2200):
    with T.sblock("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        c[vi, vj] = T.if_then_else(
            x[vi, vj] > T.float32(20) and w[vj] < T.float32(-3), T.int8(1), T.int8(0))
"""
QUANTISED = Subject(
    "saturating casts of 5 million",
    tensors(
        x=("float32", 2400, 2200),
        w=("float32", 2200),
        q=("int8", 2400, 2200),
        c=("int8", 2400, 2200),
    ),
    _QUANTISED,
    (
        wrong("saturates at 120", _KIND, edit("T.float32(127)", "T.float32(120)")),
        wrong("saturates at -127", _KIND, edit("T.float32(-128)", "T.float32(-127)")),
        wrong("one of two conditions dropped", _KIND, edit(" and w[vj] < T.float32(-3)", "")),
        wrong(
            "both conditions dropped", _KIND, edit("T.int8(1), T.int8(0)", "T.int8(0), T.int8(0)")
        ),
        right(
            "bounds of a cast in the other order",
            edit("T.max(T.min(", "T.min(T.max("),
            edit("T.float32(127)), T.float32(-128)", "T.float32(-128)), T.float32(127)"),
        ),
    ),
)
