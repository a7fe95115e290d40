"""Random convolutions and poolings in one to three dimensions."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tvm import te, tirx

from tests.trust.fuzz.numbers import SIGNED, TYPES, Array, Types, draw, is_float, slack, wide
from tests.trust.fuzz.problem import Problem, Results

_MOST_STEPS = 60_000


@dataclass(frozen=True)
class Window:
    """A window that slides along one dimension."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    padding: int

    @property
    def places(self) -> int:
        """Number of places where it fits."""
        reach = self.dilation * (self.kernel - 1) + 1
        return (self.extent + 2 * self.padding - reach) // self.stride + 1

    def __str__(self) -> str:
        return f"{self.extent}k{self.kernel}s{self.stride}d{self.dilation}p{self.padding}"


def _window(rng: random.Random) -> Window:
    while True:
        drawn = Window(
            rng.choice((1, 3, 5, 7, 8, 12, 13, 16, 17)),
            rng.choice((1, 1, 2, 3, 3, 5)),
            rng.choice((1, 1, 2, 3)),
            rng.choice((1, 1, 2)),
            rng.choice((0, 0, 1, 2, 3)),
        )
        if drawn.places >= 1:
            return drawn


def _padded(x: te.Tensor, windows: tuple[Window, ...], value: tirx.PrimExpr) -> te.Tensor:
    """Write a border of ``value`` around the last dimensions."""
    lead = len(x.shape) - len(windows)
    shape = [*x.shape[:lead], *(window.extent + 2 * window.padding for window in windows)]

    def element(*index: tirx.PrimExpr) -> tirx.PrimExpr:
        places = [at - window.padding for at, window in zip(index[lead:], windows, strict=True)]
        inside = [
            condition
            for at, window in zip(places, windows, strict=True)
            if window.padding
            for condition in (at >= 0, at < window.extent)
        ]
        loaded = x(*index[:lead], *places)
        return tirx.if_then_else(tirx.all(*inside), loaded, value) if inside else loaded

    return te.compute(shape, element, name="padded")


def _steps(at: tuple[tirx.PrimExpr, ...], inner: Any, windows: tuple[Window, ...]) -> list[Any]:
    return [
        place * window.stride + offset * window.dilation
        for place, offset, window in zip(at, inner, windows, strict=True)
    ]


def _views(padded: Array, windows: tuple[Window, ...]) -> Any:
    """Yield each place in the window, and the elements that the window has there."""
    for inner in itertools.product(*(range(window.kernel) for window in windows)):
        slices = tuple(
            slice(
                offset * window.dilation,
                offset * window.dilation + window.stride * (window.places - 1) + 1,
                window.stride,
            )
            for offset, window in zip(inner, windows, strict=True)
        )
        yield inner, padded[(..., *slices)]


def convolution(rng: random.Random) -> Problem:
    """Draw dimensions, channels, groups, windows and what follows."""
    types = rng.choice([one for one in TYPES if one.read != "bool"])
    while True:
        windows = tuple(_window(rng) for _ in range(rng.choice((1, 2, 2, 2, 3))))
        groups = rng.choice((1, 1, 1, 2, 3))
        batch, read, written = (
            rng.choice((1, 1, 2)),
            rng.choice((1, 2, 3, 5)),
            rng.choice((1, 2, 3, 8)),
        )
        terms = read * math.prod(window.kernel for window in windows)
        places = math.prod(window.places for window in windows)
        if terms * places * batch * groups * written <= _MOST_STEPS:
            break
    biased = rng.random() < 0.4
    kind = types.computed
    image = (batch, groups * read, *(window.extent for window in windows))
    weights = (groups * written, read, *(window.kernel for window in windows))
    out = (batch, groups * written, *(window.places for window in windows))

    def program() -> list[te.Tensor]:
        x = te.placeholder(image, types.read, name="x")
        w = te.placeholder(weights, types.read, name="w")
        around = any(window.padding for window in windows) or rng.random() < 0.2
        padded = _padded(x, windows, tirx.const(0, types.read)) if around else x
        axes = [te.reduce_axis((0, read), name="c")]
        axes += [te.reduce_axis((0, one.kernel), name=f"k{n}") for n, one in enumerate(windows)]

        def value(n: Any, o: Any, *at: Any) -> Any:
            channel = axes[0] if groups == 1 else te.indexdiv(o, written) * read + axes[0]
            element = padded(n, channel, *_steps(at, axes[1:], windows)).astype(kind)
            return te.sum(element * w(o, *axes).astype(kind), axes)

        y = te.compute(out, value, name="y")
        if not biased:
            return [x, w, y]
        bias = te.placeholder((groups * written,), kind, name="bias")
        z = te.compute(out, lambda n, o, *at: y(n, o, *at) + bias(o), name="biased")
        return [x, w, bias, z]

    def summed(x: Array, w: Array) -> Array:
        border = [(0, 0), (0, 0), *((window.padding, window.padding) for window in windows)]
        padded = np.pad(x, border)
        found = np.zeros(out, x.dtype)
        for inner, view in _views(padded, windows):
            for group in range(groups):
                some = view[:, group * read : (group + 1) * read]
                mine = slice(group * written, (group + 1) * written)
                found[:, mine] += np.einsum("nc...,oc->no...", some, w[(mine, slice(None), *inner)])
        return found

    def compute(x: Array, w: Array, *bias: Array) -> Results:
        total = summed(wide(x), wide(w))
        size = summed(abs(wide(x)), abs(wide(w)))
        if bias:
            shape = (1, -1, *[1] * len(windows))
            total = total + wide(bias[0]).reshape(shape)
            size = size + abs(wide(bias[0])).reshape(shape)
        return [(total.astype(np.dtype(kind)), slack(size, kind, terms + 1))]

    def values(generator: np.random.Generator) -> list[Array]:
        arrays = [
            draw(generator, image, types, 4 * terms),
            draw(generator, weights, types, 4 * terms),
        ]
        if biased:
            arrays.append(draw(generator, weights[:1], Types(kind, kind), 4 * terms))
        return arrays

    text = f"convolution {batch}x{groups}x{read}->{written} {' '.join(map(str, windows))}"
    text += f"; {types.read} in {kind}" + "; bias" * biased
    return Problem(text, program(), values, compute)


def pooling(rng: random.Random) -> Problem:
    """Draw windows, and whether their largest, smallest or sum is wanted."""
    types = rng.choice(SIGNED)
    while True:
        windows = tuple(_window(rng) for _ in range(rng.choice((1, 2, 2))))
        channels = rng.choice((1, 3, 8, 16))
        kernel = math.prod(window.kernel for window in windows)
        if kernel * channels * math.prod(window.places for window in windows) <= _MOST_STEPS:
            break
    rule = rng.choice(("sum", "max", "min"))
    kind = types.computed
    image = (channels, *(window.extent for window in windows))
    out = (channels, *(window.places for window in windows))
    border = {"sum": tirx.const(0, kind), "max": tirx.min_value(kind), "min": tirx.max_value(kind)}[
        rule
    ]

    def program() -> list[te.Tensor]:
        x = te.placeholder(image, types.read, name="x")
        converted = te.compute(image, lambda *i: x(*i).astype(kind), name="converted")
        padded = _padded(converted, windows, border)
        axes = [te.reduce_axis((0, one.kernel), name=f"k{n}") for n, one in enumerate(windows)]
        reduce = {"sum": te.sum, "max": te.max, "min": te.min}[rule]

        def value(c: Any, *at: Any) -> Any:
            return reduce(padded(c, *_steps(at, axes, windows)), axes)

        return [x, te.compute(out, value, name="pool")]

    def compute(x: Array) -> Results:
        pads = [(0, 0), *((window.padding, window.padding) for window in windows)]
        inside = np.pad(np.ones(x.shape, bool), pads)
        views = [view for _, view in _views(np.pad(wide(x), pads), windows)]
        covered = [view for _, view in _views(inside, windows)]
        empty = np.asarray(_limit(kind, rule)).astype(np.dtype(kind))
        if rule == "sum":
            total, size = sum(views), sum(abs(view) for view in views)
            return [
                (np.asarray(total).astype(np.dtype(kind)), slack(np.asarray(size), kind, kernel))
            ]
        best = np.maximum if rule == "max" else np.minimum
        found = np.full(out, wide(empty))
        for view, mask in zip(views, covered, strict=True):
            found = np.where(mask, best(found, view), found)
        return [(found.astype(np.dtype(kind)), None)]

    text = f"{rule} pool {channels} {' '.join(map(str, windows))}; {types.read} in {kind}"
    return Problem(text, program(), lambda g: [draw(g, image, types, 4 * kernel)], compute)


def _limit(kind: str, rule: str) -> float | int:
    """Return the value from which an extreme starts."""
    if is_float(kind):
        most = float(ml_dtypes.finfo(np.dtype(kind)).max)
        return -most if rule == "max" else most
    limits = np.iinfo(np.dtype(kind))
    return int(limits.min if rule == "max" else limits.max)
