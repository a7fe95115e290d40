"""Random programs that move elements, or look at them one by one: their results are exact."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from tests.trust.fuzz.numbers import TYPES, Array, Types, draw, extents
from tests.trust.fuzz.problem import Problem, Results

_VOLUME = 30_000
Index = tuple[Any, ...]


def moved(rng: random.Random) -> Problem:
    """A chain of transposes, flips, slices, paddings and concatenations."""
    kind = rng.choice([types.read for types in TYPES])
    rank = rng.randint(1, 4)
    shape = tuple(extents(rng, rank, _VOLUME))
    x = te.placeholder(shape, kind, name="x")
    steps: list[Callable[[Array], Array]] = []
    tensor, said = x, []
    for number in range(rng.randint(1, 4)):
        rule = rng.choice((_transpose, _flip, _slice, _pad, _join, _roll))
        tensor, step, words = rule(rng, tensor, f"t{number}")
        steps.append(step)
        said.append(words)

    def compute(array: Array) -> Results:
        for step in steps:
            array = step(array)
        return [(array, None)]

    def values(generator: np.random.Generator) -> list[Array]:
        return [draw(generator, shape, Types(kind, kind))]

    return Problem(f"{', '.join(said)} of {shape}; {kind}", [x, tensor], values, compute)


def gathered(rng: random.Random) -> Problem:
    """Rows that an index chooses."""
    kind = rng.choice([types.read for types in TYPES])
    rows, count, columns = extents(rng, 3, _VOLUME)
    index_type = rng.choice(("int32", "int64"))

    def program() -> list[te.Tensor]:
        table = te.placeholder((rows, columns), kind, name="table")
        index = te.placeholder((count,), index_type, name="index")
        out = te.compute((count, columns), lambda i, j: table[index[i], j], name="rows")
        return [table, index, out]

    def values(generator: np.random.Generator) -> list[Array]:
        index = generator.integers(0, rows, count).astype(np.dtype(index_type))
        return [draw(generator, (rows, columns), Types(kind, kind)), index]

    def compute(table: Array, index: Array) -> Results:
        return [(table[index], None)]

    text = f"{count} of {rows} rows of {columns}; {kind}, {index_type}"
    return Problem(text, program(), values, compute)


def chosen(rng: random.Random) -> Problem:
    """Bounds, comparisons and a choice of two values, element by element."""
    types = rng.choice([one for one in TYPES if one.read != "bool"])
    kind = types.read
    shape = tuple(extents(rng, rng.randint(1, 3), _VOLUME))
    unsigned = kind.startswith("u")
    low, high = (tirx.const(3 if unsigned else -1, kind), tirx.const(90 if unsigned else 1, kind))

    def program() -> list[te.Tensor]:
        x = te.placeholder(shape, kind, name="x")
        y = te.placeholder(shape, kind, name="y")
        band = te.compute(shape, lambda *i: te.min(te.max(x(*i), low), high), name="band")
        return [
            x,
            y,
            te.compute(
                shape, lambda *i: tirx.Select(band(*i) > y(*i), band(*i), y(*i)), name="chosen"
            ),
            te.compute(shape, lambda *i: x(*i) <= y(*i), name="below"),
        ]

    def compute(x: Array, y: Array) -> Results:
        bounds = [np.asarray(bound.value).astype(np.dtype(kind)) for bound in (low, high)]
        band = np.minimum(np.maximum(x, bounds[0]), bounds[1])
        return [(np.where(band > y, band, y), None), (x <= y, None)]

    def values(generator: np.random.Generator) -> list[Array]:
        return [draw(generator, shape, Types(kind, kind)) for _ in "xy"]

    return Problem(f"bounds and choices {shape}; {kind}", program(), values, compute)


def _shape(tensor: te.Tensor) -> tuple[int, ...]:
    return tuple(int(extent) for extent in tensor.shape)


def _compute(shape: tuple[int, ...], value: Callable[..., Any], name: str) -> te.Tensor:
    return te.compute(shape, value, name=name)


def _transpose(rng: random.Random, x: te.Tensor, name: str) -> Any:
    shape = _shape(x)
    order = rng.sample(range(len(shape)), len(shape))
    back = [order.index(n) for n in range(len(shape))]
    out = tuple(shape[n] for n in order)
    tensor = _compute(out, lambda *i: x(*(i[n] for n in back)), name)
    return tensor, lambda array: array.transpose(order), f"transpose {order}"


def _flip(rng: random.Random, x: te.Tensor, name: str) -> Any:
    shape, axis = _shape(x), rng.randrange(len(x.shape))

    def value(*i: Any) -> Any:
        return x(*i[:axis], shape[axis] - 1 - i[axis], *i[axis + 1 :])

    return _compute(shape, value, name), lambda array: np.flip(array, axis), f"flip {axis}"


def _slice(rng: random.Random, x: te.Tensor, name: str) -> Any:
    shape, axis = _shape(x), rng.randrange(len(x.shape))
    first = rng.randrange(shape[axis])
    step = rng.randint(1, 3)
    count = len(range(first, shape[axis], step))
    out = (*shape[:axis], count, *shape[axis + 1 :])

    def value(*i: Any) -> Any:
        return x(*i[:axis], first + i[axis] * step, *i[axis + 1 :])

    part = (slice(None),) * axis + (slice(first, None, step),)
    return _compute(out, value, name), lambda array: array[part], f"slice {axis} {first}::{step}"


def _pad(rng: random.Random, x: te.Tensor, name: str) -> Any:
    shape, axis = _shape(x), rng.randrange(len(x.shape))
    before, after = rng.randint(0, 3), rng.randint(0, 3)
    out = (*shape[:axis], before + shape[axis] + after, *shape[axis + 1 :])
    zero = tirx.const(0, x.dtype)

    def value(*i: Any) -> Any:
        at = i[axis] - before
        inside = tirx.all(at >= 0, at < shape[axis])
        return tirx.if_then_else(inside, x(*i[:axis], at, *i[axis + 1 :]), zero)

    pads = [(0, 0)] * axis + [(before, after)] + [(0, 0)] * (len(shape) - axis - 1)
    return _compute(out, value, name), lambda array: np.pad(array, pads), f"pad {pads}"


def _join(rng: random.Random, x: te.Tensor, name: str) -> Any:
    shape, axis = _shape(x), rng.randrange(len(x.shape))
    out = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])

    def value(*i: Any) -> Any:
        at = i[axis]
        first = x(*i)
        second = x(*i[:axis], at - shape[axis], *i[axis + 1 :])
        return tirx.if_then_else(at < shape[axis], first, second)

    step = lambda array: np.concatenate([array, array], axis)  # noqa: E731
    return _compute(out, value, name), step, f"join {axis}"


def _roll(rng: random.Random, x: te.Tensor, name: str) -> Any:
    shape, axis = _shape(x), rng.randrange(len(x.shape))
    by = rng.randrange(shape[axis])

    def value(*i: Any) -> Any:
        at = te.indexmod(i[axis] + by, shape[axis])
        return x(*i[:axis], at, *i[axis + 1 :])

    return _compute(shape, value, name), lambda array: np.roll(array, -by, axis), f"roll {axis}"
