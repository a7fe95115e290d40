"""Wrong arithmetic that only the ends of the integer types show, and products of these ends."""

from __future__ import annotations

from tests.trust.attack import Attack, Subject, edit, right, tensors, wrong

_KIND = "ends of types"

_BYTES = """
for i in T.serial(200):
    with T.sblock("all"):
        vi = T.axis.spatial(200, i)
        same[vi] = a[vi]
        size[vi] = T.abs(T.Cast("int16", a[vi]))
        turned[vi] = T.Cast("int16", 0) - T.Cast("int16", a[vi])
        product[vi] = T.Cast("int32", a[vi]) * T.Cast("int32", b[vi])
        bright[vi] = u[vi]
        sum[vi] = T.Cast("uint16", u[vi]) + T.Cast("uint16", v[vi])
        mean[vi] = T.Cast("uint8", (T.Cast("int32", u[vi]) + T.Cast("int32", v[vi]) + 1) // 2)
        short[vi] = p[vi]
        long[vi] = T.Cast("int32", p[vi]) * T.Cast("int32", q[vi])
        grown[vi] = T.Cast("int32", w[vi]) + 1
"""
_SIZE = 'T.abs(T.Cast("int16", a[vi]))'
_TURNED = 'T.Cast("int16", 0) - T.Cast("int16", a[vi])'
_PRODUCT = 'T.Cast("int32", a[vi]) * T.Cast("int32", b[vi])'
_SUM = 'T.Cast("uint16", u[vi]) + T.Cast("uint16", v[vi])'
_LONG = 'T.Cast("int32", p[vi]) * T.Cast("int32", q[vi])'


def _end(name: str, old: str, new: str) -> Attack:
    return wrong(name, _KIND, edit(old, new))


BYTES = Subject(
    "ends of bytes",
    tensors(
        a=("int8", 200),
        b=("int8", 200),
        u=("uint8", 200),
        v=("uint8", 200),
        p=("int16", 200),
        q=("int16", 200),
        w=("uint16", 200),
        same=("int8", 200),
        size=("int16", 200),
        turned=("int16", 200),
        product=("int32", 200),
        bright=("uint8", 200),
        sum=("uint16", 200),
        mean=("uint8", 200),
        short=("int16", 200),
        long=("int32", 200),
        grown=("int32", 200),
    ),
    _BYTES,
    (
        _end("int8 clamped at -127", "= a[vi]\n", "= T.max(a[vi], T.int8(-127))\n"),
        _end("int8 clamped at 126", "= a[vi]\n", "= T.min(a[vi], T.int8(126))\n"),
        _end("magnitude in int8", _SIZE, 'T.Cast("int16", T.abs(a[vi]))'),
        _end("negated in int8", _TURNED, 'T.Cast("int16", T.int8(0) - a[vi])'),
        _end("product of int8 below 2^14", _PRODUCT, f"T.min({_PRODUCT}, 16383)"),
        _end("product of int8 above -16256", _PRODUCT, f"T.max({_PRODUCT}, -16255)"),
        _end("uint8 clamped at 254", "= u[vi]\n", "= T.min(u[vi], T.uint8(254))\n"),
        _end("uint8 from one", "= u[vi]\n", "= T.max(u[vi], T.uint8(1))\n"),
        _end("sum of uint8 below 510", _SUM, f'T.min({_SUM}, T.Cast("uint16", 509))'),
        _end(
            "mean of uint8 by halves",
            '(T.Cast("int32", u[vi]) + T.Cast("int32", v[vi]) + 1) // 2',
            "T.shift_right(u[vi], T.uint8(1)) + T.shift_right(v[vi] + T.uint8(1), T.uint8(1))",
        ),
        _end("int16 clamped at -32767", "= p[vi]\n", "= T.max(p[vi], T.int16(-32767))\n"),
        _end("int16 clamped at 32766", "= p[vi]\n", "= T.min(p[vi], T.int16(32766))\n"),
        _end("product of int16 below 2^30", _LONG, f"T.min({_LONG}, 1073741823)"),
        _end(
            "uint16 incremented before it is extended",
            'T.Cast("int32", w[vi]) + 1',
            'T.Cast("int32", w[vi] + T.Cast("uint16", 1))',
        ),
        right(
            "product of int8 in int16, which holds it",
            edit(
                _PRODUCT,
                'T.Cast("int32", T.Cast("int16", a[vi]) * T.Cast("int16", b[vi]))',
            ),
        ),
        right(
            "magnitude as the larger of both signs",
            edit(
                _SIZE, 'T.max(T.Cast("int16", a[vi]), T.Cast("int16", 0) - T.Cast("int16", a[vi]))'
            ),
        ),
        right("bounds at the ends of int8", edit("= a[vi]\n", "= T.max(a[vi], T.int8(-128))\n")),
    ),
)

_DOTS = """
for i, j, k in T.grid(8, 6, 16):
    with T.sblock("signed"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            signed[vi, vj] = 0
        signed[vi, vj] = signed[vi, vj] + T.Cast("int32", a[vi, vk]) * T.Cast("int32", b[vj, vk])
for i, j, k in T.grid(8, 6, 16):
    with T.sblock("mixed"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            mixed[vi, vj] = 0
        mixed[vi, vj] = mixed[vi, vj] + T.Cast("int32", u[vi, vk]) * T.Cast("int32", b[vj, vk])
for i, j, k in T.grid(8, 6, 16):
    with T.sblock("long"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            long[vi, vj] = T.int64(0)
        long[vi, vj] = long[vi, vj] + T.Cast("int64", p[vi, vk]) * T.Cast("int64", q[vj, vk])
for i, j, k in T.grid(8, 6, 16):
    with T.sblock("total"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            total[vi, vj] = 0
        total[vi, vj] = total[vi, vj] + T.Cast("int32", u[vi, vk]) * T.Cast("int32", v[vj, vk])
"""


def _pairs(out: str, one: str, other: str, first: str, narrow: str, wide: str) -> str:
    """Return the nest of ``out``, with two products at a time added in a narrow type."""
    terms = [
        f'T.Cast("{narrow}", {one}[vi, vk * 2{n}]) * T.Cast("{narrow}", {other}[vj, vk * 2{n}])'
        for n in ("", " + 1")
    ]
    if narrow == "int32":  # whose overflow the compiler takes to be impossible
        terms = [part.replace(narrow, wide) for part in terms]
    term = f'T.Cast("{wide}", T.Cast("{narrow}", {" + ".join(terms)}))'
    if first == "saturating":
        exact = [part.replace(narrow, "int32") for part in terms]
        term = f"T.max(T.min({' + '.join(exact)}, 32767), -32768)"
    return f"""
for i, j, k in T.grid(8, 6, 8):
    with T.sblock("{out}"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            {out}[vi, vj] = T.{wide}(0)
        {out}[vi, vj] = {out}[vi, vj] + {term}
"""


def _nest(out: str) -> str:
    """Return the nest of an output as it is."""
    nests = _DOTS.strip("\n").split("\nfor ")
    (found,) = (nest for nest in nests if f'"{out}"' in nest)
    return found if found.startswith("for ") else f"for {found}"


def _paired(name: str, out: str, one: str, other: str, how: str, narrow: str, wide: str) -> Attack:
    new = _pairs(out, one, other, how, narrow, wide)
    return wrong(name, _KIND, edit(_nest(out), new.strip("\n")))


DOTS = Subject(
    "dot products of bytes",
    tensors(
        a=("int8", 8, 16),
        b=("int8", 6, 16),
        u=("uint8", 8, 16),
        v=("uint8", 6, 16),
        p=("int16", 8, 16),
        q=("int16", 6, 16),
        signed=("int32", 8, 6),
        mixed=("int32", 8, 6),
        long=("int64", 8, 6),
        total=("int32", 8, 6),
    ),
    _DOTS,
    (
        _paired("pairs of int8 products in int16", "signed", "a", "b", "", "int16", "int32"),
        _paired("pairs of products saturate", "mixed", "u", "b", "saturating", "int16", "int32"),
        _paired(
            "pairs of int8 products saturate", "signed", "a", "b", "saturating", "int16", "int32"
        ),
        _paired("pairs of int16 products in int32", "long", "p", "q", "", "int32", "int64"),
        _paired("pairs of uint8 products in uint16", "total", "u", "v", "", "uint16", "int32"),
        right(
            "pairs of int8 products in int32",
            edit(_nest("signed"), _pairs("signed", "a", "b", "", "int32", "int32").strip("\n")),
        ),
        right(
            "products of uint8 in uint16, which holds them",
            edit(
                'T.Cast("int32", u[vi, vk]) * T.Cast("int32", v[vj, vk])',
                'T.Cast("int32", T.Cast("uint16", u[vi, vk]) * T.Cast("uint16", v[vj, vk]))',
            ),
        ),
    ),
)

_WORDS = """
for i in T.serial(128):
    with T.sblock("all"):
        vi = T.axis.spatial(128, i)
        same[vi] = a[vi]
        larger[vi] = T.max(a[vi], b[vi])
        size[vi] = T.abs(T.Cast("int64", a[vi]))
        mean[vi] = T.Cast("int32", (T.Cast("int64", a[vi]) + T.Cast("int64", b[vi])) // T.int64(2))
        less[vi] = a[vi] < b[vi]
        bright[vi] = u[vi]
        sum[vi] = T.Cast("uint64", u[vi]) + T.Cast("uint64", v[vi])
        far[vi] = m[vi]
        high[vi] = n[vi]
for i, k in T.grid(6, 10):
    with T.sblock("total"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            total[vi] = T.int64(0)
        total[vi] = total[vi] + T.Cast("int64", r[vi, vk])
for i in T.serial(6):
    with T.sblock("average"):
        vi = T.axis.spatial(6, i)
        average[vi] = T.Cast("int32", total[vi] // T.int64(10))
"""
_A64, _B64 = 'T.Cast("int64", a[vi])', 'T.Cast("int64", b[vi])'
_MEAN = f'T.Cast("int32", ({_A64} + {_B64}) // T.int64(2))'
_MAGNITUDE = f"T.abs({_A64})"


def _negated(name: str) -> str:
    # An overflow of int32 itself would be one that the compiler takes to be impossible.
    return f'T.Cast("int32", T.int64(0) - T.Cast("int64", {name}[vi]))'


WORDS = Subject(
    "ends of words",
    tensors(
        a=("int32", 128),
        b=("int32", 128),
        u=("uint32", 128),
        v=("uint32", 128),
        m=("int64", 128),
        n=("uint64", 128),
        r=("int32", 6, 10),
        same=("int32", 128),
        larger=("int32", 128),
        size=("int64", 128),
        mean=("int32", 128),
        less=("bool", 128),
        bright=("uint32", 128),
        sum=("uint64", 128),
        far=("int64", 128),
        high=("uint64", 128),
        total=("int64", 6),
        average=("int32", 6),
    ),
    _WORDS,
    (
        _end("int32 clamped above its least", "= a[vi]\n", "= T.max(a[vi], -2147483647)\n"),
        _end("int32 clamped below its greatest", "= a[vi]\n", "= T.min(a[vi], 2147483646)\n"),
        _end(
            "maximum by the negated",
            "T.max(a[vi], b[vi])",
            f"T.Select({_negated('a')} < {_negated('b')}, a[vi], b[vi])",
        ),
        _end("magnitude in int32", _MAGNITUDE, f'T.Cast("int64", T.Cast("int32", {_MAGNITUDE}))'),
        _end("mean of two in int32", _MEAN, f'T.Cast("int32", {_A64} + {_B64}) // 2'),
        _end(
            "mean by half the difference", _MEAN, f'a[vi] + T.Cast("int32", {_B64} - {_A64}) // 2'
        ),
        _end("less by the difference", "a[vi] < b[vi]", f'T.Cast("int32", {_A64} - {_B64}) < 0'),
        _end(
            "uint32 clamped below its greatest",
            "= u[vi]\n",
            "= T.min(u[vi], T.uint32(4294967294))\n",
        ),
        _end(
            "sum of uint32 in uint32",
            'T.Cast("uint64", u[vi]) + T.Cast("uint64", v[vi])',
            'T.Cast("uint64", u[vi] + v[vi])',
        ),
        _end(
            "int64 clamped above its least",
            "= m[vi]\n",
            "= T.max(m[vi], T.int64(-9223372036854775807))\n",
        ),
        _end(
            "uint64 through int64's greatest",
            "= n[vi]\n",
            "= T.if_then_else(n[vi] == ~T.uint64(0), n[vi] - T.uint64(1), n[vi])\n",
        ),
        _end(
            "sum of int32 in int32",
            'T.Cast("int64", r[vi, vk])',
            'T.Cast("int64", T.Cast("int32", total[vi]) + r[vi, vk]) - total[vi]',
        ),
        right(
            "mean by bits",
            edit(
                _MEAN, "T.bitwise_and(a[vi], b[vi]) + T.shift_right(T.bitwise_xor(a[vi], b[vi]), 1)"
            ),
        ),
        right(
            "maximum as a Select",
            edit("T.max(a[vi], b[vi])", "T.Select(a[vi] < b[vi], b[vi], a[vi])"),
        ),
    ),
)
