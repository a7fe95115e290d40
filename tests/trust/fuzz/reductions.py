"""Random reductions of tuples, of truth values, and several results of one tensor."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
from tvm import te, tirx

from tests.trust.fuzz.numbers import (
    FLOATS,
    SIGNED,
    Array,
    Types,
    draw,
    extents,
    is_float,
    slack,
    wide,
)
from tests.trust.fuzz.problem import Problem, Results

_VOLUME = 30_000


def _reduced_axes(rng: random.Random, rank: int) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))


def _at(index: tuple[Any, ...], inner: list[Any], over: tuple[int, ...], rank: int) -> list[Any]:
    """Merge the indices of the result and of the reduction."""
    outer, reduced = iter(index), iter(inner)
    return [next(reduced) if n in over else next(outer) for n in range(rank)]


def position(rng: random.Random) -> Problem:
    """Where the largest or smallest element of a row is, and which it is; no two are equal."""
    types = rng.choice([one for one in SIGNED if one.read not in ("int8", "float16", "bfloat16")])
    rank = rng.randint(1, 3)
    shape = extents(rng, rank, _VOLUME)
    over = rng.randrange(rank)
    smallest = rng.random() < 0.5
    kind = types.read
    start = tirx.max_value if smallest else tirx.min_value

    def better(a: Any, b: Any) -> Any:
        first = a[1] <= b[1] if smallest else a[1] >= b[1]
        return tirx.Select(first, a[0], b[0]), tirx.Select(first, a[1], b[1])

    reduce = te.comm_reducer(better, lambda i, v: (tirx.const(-1, i), start(v)), name="position")
    out = tuple(extent for n, extent in enumerate(shape) if n != over)

    def program() -> list[te.Tensor]:
        x = te.placeholder(tuple(shape), kind, name="x")
        k = te.reduce_axis((0, shape[over]), name="k")
        found = te.compute(
            out, lambda *i: reduce((k, x(*_at(i, [k], (over,), rank))), axis=k), name="found"
        )
        return [x, *found]

    def values(generator: np.random.Generator) -> list[Array]:
        distinct = generator.permutation(math.prod(shape)).reshape(shape) - math.prod(shape) // 2
        return [distinct.astype(np.dtype(kind))]

    def compute(x: Array) -> Results:
        pick, best = (np.argmin, np.min) if smallest else (np.argmax, np.max)
        return [(pick(x, axis=over).astype(np.int32), None), (best(x, axis=over), None)]

    what = "argmin" if smallest else "argmax"
    return Problem(f"{what} of {shape} along {over}; {kind}", program(), values, compute)


def moments(rng: random.Random) -> Problem:
    """The sum and the sum of squares, in one reduction or in two."""
    types = rng.choice(SIGNED)
    rank = rng.randint(1, 3)
    shape = extents(rng, rank, _VOLUME)
    over = _reduced_axes(rng, rank)
    kind = types.computed
    terms = math.prod(shape[n] for n in over)
    together = rng.random() < 0.6
    out = tuple(extent for n, extent in enumerate(shape) if n not in over)
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda s, q: (tirx.const(0, s), tirx.const(0, q)),
        name="both",
    )

    def program() -> list[te.Tensor]:
        x = te.placeholder(tuple(shape), types.read, name="x")

        def axes() -> list[Any]:
            return [te.reduce_axis((0, shape[n]), name=f"k{n}") for n in over]

        def element(index: tuple[Any, ...], inner: list[Any]) -> Any:
            return x(*_at(index, inner, over, rank)).astype(kind)

        inner = axes()
        if together:
            found = te.compute(
                out,
                lambda *i: both((element(i, inner), element(i, inner) * element(i, inner)), inner),
                name="both",
            )
            return [x, *found]
        other = axes()
        total = te.compute(out, lambda *i: te.sum(element(i, inner), inner), name="total")
        squares = te.compute(
            out, lambda *i: te.sum(element(i, other) * element(i, other), other), name="squares"
        )
        return [x, total, squares]

    def compute(x: Array) -> Results:
        known = wide(x)
        total, squares = known.sum(over), (known * known).sum(over)
        errors = (
            slack(np.asarray(abs(known).sum(over)), kind, terms),
            slack(np.asarray(squares), kind, terms, one_sign=True),
        )
        results = [np.asarray(value).astype(np.dtype(kind)) for value in (total, squares)]
        return list(zip(results, errors, strict=True))

    text = f"sum and squares{' in one' * together} of {shape} over {over}; {types.read} in {kind}"
    return Problem(text, program(), lambda g: [draw(g, tuple(shape), types, 4 * terms)], compute)


def truth(rng: random.Random) -> Problem:
    """Whether all or any elements are, and how many are, above those of another tensor."""
    rank = rng.randint(1, 3)
    shape = extents(rng, rank, _VOLUME)
    over = _reduced_axes(rng, rank)
    types = rng.choice(("float32", "int8", "uint8", "int32", "bool"))
    out = tuple(extent for n, extent in enumerate(shape) if n not in over)
    every = te.comm_reducer(
        lambda a, b: tirx.all(a, b), lambda t: tirx.const(True, "bool"), name="every"
    )

    def program() -> list[te.Tensor]:
        x = te.placeholder(tuple(shape), types, name="x")
        y = te.placeholder(tuple(shape), types, name="y")

        def above(*i: Any) -> Any:
            return tirx.any(x(*i), y(*i)) if types == "bool" else x(*i) >= y(*i)

        first = [te.reduce_axis((0, shape[n]), name=f"k{n}") for n in over]
        second = [te.reduce_axis((0, shape[n]), name=f"m{n}") for n in over]
        mask = te.compute(tuple(shape), above, name="mask")
        return [
            x,
            y,
            te.compute(out, lambda *i: every(mask(*_at(i, first, over, rank)), first), name="all"),
            te.compute(
                out,
                lambda *i: te.sum(mask(*_at(i, second, over, rank)).astype("int32"), second),
                name="count",
            ),
        ]

    def values(generator: np.random.Generator) -> list[Array]:
        # Few differences, so that all of a row may be above.
        x = draw(generator, tuple(shape), Types(types, types))
        change = generator.random(shape) < 1 / (2 * max(math.prod(shape[n] for n in over), 1))
        return [x, np.where(change, np.roll(x, 1), x).astype(x.dtype)]

    def compute(x: Array, y: Array) -> Results:
        mask = x | y if types == "bool" else x >= y
        every_one, count = np.asarray(mask.all(over)), np.asarray(mask.sum(over))
        return [(every_one, None), (count.astype(np.int32), None)]

    return Problem(f"all and count of {shape} over {over}; {types}", program(), values, compute)


def normalised(rng: random.Random) -> Problem:
    """A softmax, or rows divided by their norms: stages that read one another."""
    types = rng.choice(FLOATS)
    rows, columns = extents(rng, 2, _VOLUME)
    softmax = rng.random() < 0.5
    kind = types.computed

    def program() -> list[te.Tensor]:
        x = te.placeholder((rows, columns), types.read, name="x")
        k, m = (te.reduce_axis((0, columns), name=name) for name in "km")
        element = lambda i, j: x(i, j).astype(kind)  # noqa: E731
        if not softmax:
            norm = te.compute(
                (rows,), lambda i: te.sum(element(i, k) * element(i, k), axis=k), name="norm"
            )
            one = tirx.const(1, kind)
            return [
                x,
                te.compute(
                    (rows, columns), lambda i, j: element(i, j) / (norm(i) + one), name="out"
                ),
            ]
        top = te.compute((rows,), lambda i: te.max(element(i, k), axis=k), name="top")
        power = te.compute(
            (rows, columns), lambda i, j: te.exp(element(i, j) - top(i)), name="power"
        )
        total = te.compute((rows,), lambda i: te.sum(power(i, m), axis=m), name="total")
        return [x, te.compute((rows, columns), lambda i, j: power(i, j) / total(i), name="out")]

    def compute(x: Array) -> Results:
        known = wide(x)
        if softmax:
            power = np.exp(known - known.max(1, keepdims=True))
            found = power / power.sum(1, keepdims=True)
        else:
            found = known / ((known * known).sum(1, keepdims=True) + 1)
        error = slack(abs(found) * 4, kind, columns)
        assert error is not None and is_float(kind)
        return [(found.astype(np.dtype(kind)), error)]

    what = "softmax" if softmax else "rows by their norms"
    text = f"{what} {rows}x{columns}; {types.read} in {kind}"
    return Problem(text, program(), lambda g: [draw(g, (rows, columns), types)], compute)
