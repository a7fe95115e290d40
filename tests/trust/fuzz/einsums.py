"""Random sums of products, and extremes of sums, with stages before and after them."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
from tvm import te, tirx

from tests.trust.fuzz.numbers import (
    TYPES,
    Array,
    Types,
    draw,
    extents,
    is_float,
    slack,
    wide,
    wrapped,
)
from tests.trust.fuzz.problem import Problem, Results

_VOLUME = 40_000


def einsum(rng: random.Random) -> Problem:
    """Draw operands, their indices, the reduction, and what comes before and after."""
    types = rng.choice(TYPES)
    letters = "ijklm"[: rng.randint(1, 5)]
    size = dict(zip(letters, extents(rng, len(letters), _VOLUME), strict=True))
    operands = _operands(rng, letters)
    kept = [letter for letter in letters if rng.random() < 0.6]
    rng.shuffle(kept)
    summed = [letter for letter in letters if letter not in kept]
    rule = "sum" if types.read == "bool" else rng.choice(("sum", "sum", "sum", "max", "min"))
    before = rng.choice(("", "", "twice"))
    after = rng.choice(("", "", "relu", "bias", "two outputs"))
    if len(operands) > 2 and not is_float(types.computed):
        operands = operands[:2]
        used = set("".join(operands))
        operands[-1] += "".join(letter for letter in letters if letter not in used)

    shapes = [tuple(size[letter] for letter in operand) for operand in operands]
    result_shape = tuple(size[letter] for letter in kept)
    terms = math.prod(size[letter] for letter in summed)

    def program() -> list[te.Tensor]:
        inputs = [te.placeholder(shape, types.read, name=f"x{n}") for n, shape in enumerate(shapes)]
        staged = [_staged(tensor, types, before) for tensor in inputs]
        axes = {letter: te.reduce_axis((0, size[letter]), name=f"r{letter}") for letter in summed}

        def value(*index: tirx.PrimExpr) -> tirx.PrimExpr:
            place = {**dict(zip(kept, index, strict=True)), **axes}
            factors = [
                tensor(*(place[letter] for letter in operand))
                for tensor, operand in zip(staged, operands, strict=True)
            ]
            term = factors[0]
            for factor in factors[1:]:
                term = term * factor if rule == "sum" else term + factor
            if not axes:
                return term
            return {"sum": te.sum, "max": te.max, "min": te.min}[rule](term, list(axes.values()))

        total = te.compute(result_shape, value, name="total")
        return [*inputs, *_finished(total, types, after)]

    def compute(*arrays: Array) -> Results:
        kind = np.dtype(types.computed)
        read = [wrapped(wide(array) * (2 if before else 1), kind) for array in arrays]
        total = _reduced(read, operands, letters, kept, rule, kind).astype(kind)
        sizes = _reduced([abs(one) for one in read], operands, letters, kept, rule, kind)
        error = slack(sizes, types.computed, terms * len(operands))
        if after == "relu":
            return [(np.maximum(total, np.zeros((), kind)), error)]
        if after == "bias":
            more = slack(sizes + 3, types.computed, terms + 1)
            return [((wide(total) + 3).astype(kind), more)]
        if after == "two outputs":
            return [(total, error), ((wide(total) * 3).astype(kind), _scaled(error, 3))]
        return [(total, error)]

    def values(generator: np.random.Generator) -> list[Array]:
        return [draw(generator, shape, types, 16 * terms) for shape in shapes]

    described = ", ".join(
        f"{operand}{list(shape)}" for operand, shape in zip(operands, shapes, strict=True)
    )
    text = f"{rule} of {described} -> {''.join(kept)}; {types.read} in {types.computed}"
    text += f"; {before} before" * bool(before) + f"; {after}" * bool(after)
    return Problem(text, program(), values, compute)


def _operands(rng: random.Random, letters: str) -> list[str]:
    """Give each index to some of one, two or three operands; each operand has one at least."""
    count = rng.choice((1, 2, 2, 2, 3))
    held: list[list[str]] = [[rng.choice(letters)] for _ in range(count)]
    for letter in letters:
        for operand in rng.sample(held, rng.randint(1, count)):
            if letter not in operand:
                operand.append(letter)
    for operand in held:
        rng.shuffle(operand)
    return ["".join(operand) for operand in held]


def _staged(tensor: te.Tensor, types: Types, before: str) -> te.Tensor:
    """Convert it to the type that is computed with, in a stage of its own if it is doubled."""
    if before:
        two = tirx.const(2, types.computed)
        return te.compute(
            tensor.shape,
            lambda *i: tensor(*i).astype(types.computed) * two,
            name=f"{tensor.op.name}_twice",
        )
    if types.read == types.computed:
        return tensor
    return _Converted(tensor, types.computed)


class _Converted:
    """A tensor whose elements are converted where they are read."""

    def __init__(self, tensor: te.Tensor, dtype: str) -> None:
        self._tensor, self._dtype = tensor, dtype

    def __call__(self, *index: tirx.PrimExpr) -> tirx.PrimExpr:
        return self._tensor(*index).astype(self._dtype)


def _finished(total: te.Tensor, types: Types, after: str) -> list[te.Tensor]:
    def stage(value: object, name: str) -> te.Tensor:
        return te.compute(total.shape, value, name=name)

    kind = types.computed
    if after == "relu":
        return [stage(lambda *i: te.max(total(*i), tirx.const(0, kind)), "relu")]
    if after == "bias":
        return [stage(lambda *i: total(*i) + tirx.const(3, kind), "biased")]
    if after == "two outputs":
        return [total, stage(lambda *i: total(*i) * tirx.const(3, kind), "three_times")]
    return [total]


def _reduced(
    arrays: list[Array],
    operands: list[str],
    letters: str,
    kept: list[str],
    rule: str,
    kind: np.dtype[Any],
) -> Array:
    """Spread every operand over all indices, combine them, and reduce."""
    spread = []
    for array, operand in zip(arrays, operands, strict=True):
        order = sorted(operand, key=letters.index)
        moved = array.transpose([operand.index(letter) for letter in order])
        shape = iter(moved.shape)
        spread.append(
            moved.reshape([next(shape) if letter in operand else 1 for letter in letters])
        )
    combine = np.multiply if rule == "sum" else np.add
    term = spread[0]
    for one in spread[1:]:
        term = combine(term, one)
    term = wrapped(term, kind)
    over = tuple(n for n, letter in enumerate(letters) if letter not in kept)
    found = {"sum": np.sum, "max": np.max, "min": np.min}[rule](term, axis=over)
    left = [letter for letter in letters if letter in kept]
    return np.asarray(found).transpose([left.index(letter) for letter in kept])


def _scaled(error: Array | None, factor: float) -> Array | None:
    return None if error is None else error * factor
