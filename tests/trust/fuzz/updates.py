"""Random updates in place, and what is made of the tensor afterwards."""

from __future__ import annotations

import random

import numpy as np
from tvm.script import from_source

from tests.trust.fuzz.numbers import SIGNED, Array, Types, draw, extents, is_float, slack, wide
from tests.trust.fuzz.problem import Problem, Results

_VOLUME = 20_000

_UPDATE = """
    for i, j in T.grid({n}, {m}):
        with T.sblock("update"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = a[vi, vj] * {three} + b[{row}]
"""
_SUMS = """
    for {loops} in T.grid({n}, {m}):
        with T.sblock("sums"):
            vi, vj = T.axis.remap("{axes}", [i, j])
            with T.init():
                s[{at}] = {zero}
            s[{at}] = s[{at}] + a[vi, vj]
"""
_PRODUCT = """
    for i, j, k in T.grid({n}, {m}, {k}):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
"""


def _function(signature: str, *parts: str) -> object:
    return from_source(
        f"@T.prim_func(s_tir=True)\ndef main({signature}):\n" + "".join(parts).lstrip("\n")
    )


def _buffer(name: str, shape: tuple[int, ...], dtype: str) -> str:
    return f'{name}: T.Buffer({shape!r}, "{dtype}")'


def update(rng: random.Random) -> Problem:
    """``a = 3a + b``, and perhaps the sums of the rows, of the columns, or of all of it."""
    kind = rng.choice([types.read for types in SIGNED if types.read == types.computed])
    n, m = extents(rng, 2, _VOLUME)
    by_row = rng.random() < 0.3
    then = rng.choice(("", "rows", "columns", "all"))
    axes, at, out = {
        "": ("", "", ()),
        "rows": ("SR", "vi", (n,)),
        "columns": ("RS", "vj", (m,)),
        "all": ("RR", "0", (1,)),
    }[then]
    names = {
        "n": n,
        "m": m,
        "axes": axes,
        "at": at,
        "three": f"T.{kind}(3)",
        "zero": f"T.{kind}(0)",
    }
    names["row"] = "vi" if by_row else "vi, vj"
    names["loops"] = "i, j"
    shape_b = (n,) if by_row else (n, m)
    signature = [_buffer("a", (n, m), kind), _buffer("b", shape_b, kind)]
    parts = [_UPDATE.format(**names)]
    if then:
        signature.append(_buffer("s", out, kind))
        parts.append(_SUMS.format(**names))
    function = _function(", ".join(signature), *parts)

    def compute(a: Array, b: Array) -> Results:
        added = wide(b)[:, None] if by_row else wide(b)
        found, size = wide(a) * 3 + added, abs(wide(a)) * 3 + abs(added)
        results = [(found.astype(np.dtype(kind)), slack(size, kind, 2))]
        if then:
            over = {"rows": (1,), "columns": (0,), "all": (0, 1)}[then]
            total, sizes = found.sum(over).reshape(out), size.sum(over).reshape(out)
            results.append((total.astype(np.dtype(kind)), slack(sizes, kind, n * m)))
        return results

    def values(generator: np.random.Generator) -> list[Array]:
        types = Types(kind, kind)
        return [draw(generator, shape, types, 8 * n * m) for shape in ((n, m), shape_b)]

    text = f"a = 3a + b{' by row' * by_row} {n}x{m}" + f", then sums of {then}" * bool(then)
    return Problem(f"{text}; {kind}", function, values, compute)


def accumulated(rng: random.Random) -> Problem:
    """A product that is added to what the caller has."""
    kind = rng.choice([types.read for types in SIGNED if types.read == types.computed])
    n, m, k = extents(rng, 3, _VOLUME)
    shapes = ((n, k), (k, m), (n, m))
    signature = ", ".join(
        _buffer(name, shape, kind) for name, shape in zip("abc", shapes, strict=True)
    )
    function = _function(signature, _PRODUCT.format(n=n, m=m, k=k))

    def compute(a: Array, b: Array, c: Array) -> Results:
        found = wide(c) + wide(a) @ wide(b)
        size = abs(wide(c)) + abs(wide(a)) @ abs(wide(b))
        return [(found.astype(np.dtype(kind)), slack(size, kind, k + 1))]

    def values(generator: np.random.Generator) -> list[Array]:
        return [draw(generator, shape, Types(kind, kind), 4 * (k + 1)) for shape in shapes]

    return Problem(f"c += a @ b {n}x{m}x{k}; {kind}", function, values, compute)


def neighbours(rng: random.Random) -> Problem:
    """A copy, and a sum of neighbours in place of the tensor that was copied."""
    kind = rng.choice([types.read for types in SIGNED if is_float(types.read)] + ["int32", "int8"])
    n, m = extents(rng, 2, _VOLUME)
    text = f"""
    before = T.sblock_alloc_buffer(({n}, {m}), "{kind}")
    for i, j in T.grid({n}, {m}):
        with T.sblock("before"):
            vi, vj = T.axis.remap("SS", [i, j])
            before[vi, vj] = a[vi, vj]
    for i, j in T.grid({n}, {m}):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = before[T.max(vi - 1, 0), vj] + before[vi, T.min(vj + 1, {m - 1})]
"""
    function = _function(_buffer("a", (n, m), kind), text)

    def compute(a: Array) -> Results:
        above = wide(a)[np.maximum(np.arange(n) - 1, 0)]
        right = wide(a)[:, np.minimum(np.arange(m) + 1, m - 1)]
        return [((above + right).astype(np.dtype(kind)), slack(abs(above) + abs(right), kind, 2))]

    def values(generator: np.random.Generator) -> list[Array]:
        return [draw(generator, (n, m), Types(kind, kind), 4)]

    return Problem(f"neighbours in place {n}x{m}; {kind}", function, values, compute)
