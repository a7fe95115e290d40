"""Random programs that read elements at random indices, and what numpy makes of them."""

from __future__ import annotations

import math
import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx

from schedlang.workloads import from_script, from_te
from schedlang.workloads.workload import Workload
from tests.tvm.indices.expressions import Array, Index, random_index

_EXTENTS = (3, 4, 6, 8, 9, 12)
_SPACE = 64
"""Elements before and after each array, which a wrong index may touch."""


@dataclass(frozen=True)
class Program:
    """A program of tensors ``a``, ``y`` and others, and its arguments.

    Attributes
    ----------
    kind: name of what it does.
    indices: those of its accesses, as text.
    dtype: of the indices.
    workload: the program.
    inputs: values of its arguments but the last.
    expected: value of the last.
    """

    kind: str
    indices: str
    dtype: str
    workload: Workload
    inputs: tuple[Array, ...]
    expected: Array

    def arguments(self) -> list[Array]:
        """Return arrays of its arguments, the last without values; there is space around each."""
        arrays = [_roomy(value) for value in self.inputs]
        return [*arrays, _roomy(np.full_like(self.expected, np.nan))]


def _roomy(value: Array) -> Array:
    whole = np.zeros(value.size + 2 * _SPACE, value.dtype)
    inner = whole[_SPACE : _SPACE + value.size].reshape(value.shape)
    inner[...] = value
    return inner


class _Draw:
    """What the kinds of programs are made of."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(("int32", "int32", "int64"))
        self.extents = [rng.choice(_EXTENTS) for _ in range(rng.choice((1, 2, 2)))]
        self.names = list("ij"[: len(self.extents)])
        self.points = dict(zip(self.names, np.indices(self.extents).astype("int64"), strict=True))
        self.shape = [tirx.IntImm(self.dtype, extent) for extent in self.extents]
        self.said: list[str] = []

    def index(self) -> tuple[Index, int]:
        """Return an index that begins with 0 where the program runs, and its extent."""
        index = random_index(self.rng, self.names)
        values = index(self.points)
        least = int(values.min())
        if least:
            index = Index("-", index, least) if least > 0 else Index("+", index, -least)
        self.said.append(str(index))
        return index, int(values.max()) - least + 1

    def tensor(self, shape: Sequence[int], name: str) -> tuple[Any, Array]:
        """Return a placeholder and its values, which are all different."""
        values = np.arange(1, 1 + int(np.prod(shape)), dtype="float32").reshape(shape)
        axes = [tirx.IntImm(self.dtype, extent) for extent in shape]
        return te.placeholder(axes, name=name), values

    def compute(self, body: Callable[[dict[str, Any]], Any], name: str) -> Any:
        """Return a tensor over the program's axes."""
        return te.compute(
            self.shape, lambda *axes: body(dict(zip(self.names, axes, strict=True))), name=name
        )

    def program(
        self, kind: str, tensors: list[Any], inputs: Sequence[Array], expected: Array
    ) -> Program:
        workload = from_te(tensors, kind)
        text = ", ".join(self.said)
        return Program(kind, text, self.dtype, workload, tuple(inputs), expected)


def read(rng: random.Random) -> Program:
    """``y[i, j] = a[e(i, j), f(i, j)]``"""
    draw = _Draw(rng)
    found = [draw.index() for _ in range(rng.choice((1, 2, 2)))]
    a, values = draw.tensor([extent for _, extent in found], "a")
    y = draw.compute(lambda at: a[tuple(index(at) for index, _ in found)] * 2.0, "y")
    expected = values[tuple(index(draw.points) for index, _ in found)] * 2
    return draw.program("read", [a, y], [values], expected)


def gathered(rng: random.Random) -> Program:
    """``y[i, j] = a[p[e(i, j)], f(i, j)]``"""
    draw = _Draw(rng)
    (first, places), (second, extent) = draw.index(), draw.index()
    table = np.random.default_rng(0).permutation(places).astype("int32")
    p = te.placeholder([tirx.IntImm(draw.dtype, places)], "int32", name="p")
    a, values = draw.tensor([places, extent], "a")
    y = draw.compute(lambda at: a[p[first(at)], second(at)] + 1.0, "y")
    expected = values[table[first(draw.points)], second(draw.points)] + 1
    return draw.program("gathered", [p, a, y], [table, values], expected)


def chained(rng: random.Random) -> Program:
    """``x[k] = a[e(k)] + 1``, and ``y[i, j] = x[f(i, j)] * 2 + x[g(i, j)]``"""
    draw = _Draw(rng)
    later = [draw.index() for _ in range(rng.choice((1, 1, 2)))]
    length = max(extent for _, extent in later)
    inner = _Draw(rng)
    inner.dtype, inner.names, inner.said = draw.dtype, ["k"], draw.said
    inner.points = {"k": np.arange(length)}
    inner.shape = [tirx.IntImm(draw.dtype, length)]
    first, extent = inner.index()
    a, values = draw.tensor([extent], "a")
    x = inner.compute(lambda at: a[first(at)] + 1.0, "x")
    y = draw.compute(lambda at: sum(x[index(at)] * 2.0 for index, _ in later), "y")
    middle = values[first(inner.points)] + 1
    expected = sum(middle[index(draw.points)] * 2 for index, _ in later)
    return draw.program("chained", [a, y], [values], np.asarray(expected))


def summed(rng: random.Random) -> Program:
    """``y[i] = sum(a[e(i, k), f(i, k)] for k)``"""
    draw = _Draw(rng)
    if len(draw.extents) == 1:
        return read(rng)
    found = [draw.index() for _ in range(rng.choice((1, 2)))]
    a, values = draw.tensor([extent for _, extent in found], "a")
    k = te.reduce_axis((0, draw.shape[1]), name="k")

    def body(i: Any) -> Any:
        at = {"i": i, "j": k.var}
        return te.sum(a[tuple(index(at) for index, _ in found)], axis=k)

    y = te.compute(draw.shape[:1], body, name="y")
    expected = values[tuple(index(draw.points) for index, _ in found)].sum(1)
    return draw.program("summed", [a, y], [values], expected)


def rolled(rng: random.Random) -> Program:
    """``x[p(k)] = a[k] + 1``, and ``y[q(i)] = x[r(i)] * 2`` with permutations p, q and r"""
    draw = _Draw(rng)
    n = draw.extents[0]
    p, q, r = (_permutation(rng, n) for _ in range(3))
    draw.said += [f"{p}, {q}, {r} of {n}"]
    size = f"T.int64({n})" if draw.dtype == "int64" else str(n)
    text = f"""
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer(({n},), "float32"), y: T.Buffer(({n},), "float32")):
        x = T.sblock_alloc_buffer(({n},))
        for k in range({size}):
            with T.sblock("x"):
                i = T.axis.spatial({size}, k)
                x[{p}] = a[i] + T.float32(1)
        for k in range({size}):
            with T.sblock("y"):
                i = T.axis.spatial({size}, k)
                y[{q}] = x[{r}] * T.float32(2)
    """
    at = {"i": np.arange(n)}
    values = np.arange(1, 1 + n, dtype="float32")
    middle, expected = np.zeros_like(values), np.zeros_like(values)
    middle[p(at)] = values + 1
    expected[q(at)] = middle[r(at)] * 2
    workload = from_script(textwrap.dedent(text), "rolled")
    return Program("rolled", draw.said[0], draw.dtype, workload, (values,), expected)


def bound(rng: random.Random) -> Program:
    """``y[i, j] = a[e(i, j), f(i, j)]`` with permuted block variables"""
    draw = _Draw(rng)
    found = [draw.index() for _ in range(2)]
    a, values = draw.tensor([extent for _, extent in found], "a")
    permuted = [_permutation(rng, extent) for extent in draw.extents]
    sizes = [f"T.int64({n})" if draw.dtype == "int64" else str(n) for n in draw.extents]
    loops = ["i", "i2"][: len(sizes)]
    lines = [
        f"{name} = T.axis.spatial({size}, {str(index).replace('i', loop)})"
        for name, size, index, loop in zip(["v", "w"], sizes, permuted, loops, strict=False)
    ]
    read = ", ".join(str(index).replace("i", "v").replace("j", "w") for index, _ in found)
    draw.said += map(str, permuted)
    grid = f"range({sizes[0]})" if len(sizes) == 1 else f"T.grid({', '.join(sizes)})"
    body = "\n                ".join(
        [*lines, f"y[{', '.join(['v', 'w'][: len(sizes)])}] = a[{read}]"]
    )
    text = f"""
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer({values.shape}, "float32"), y: T.Buffer({tuple(draw.extents)}, "float32")):
        for {", ".join(loops)} in {grid}:
            with T.sblock("y"):
                {body}
    """
    expected = values[tuple(index(draw.points) for index, _ in found)]
    workload = from_script(textwrap.dedent(text), "bound")
    return Program("bound", ", ".join(draw.said), draw.dtype, workload, (values,), expected)


def _permutation(rng: random.Random, extent: int) -> Index:
    kind = rng.random()
    if kind < 0.2:
        return Index("-", extent - 1, "i")
    step = rng.choice([k for k in range(1, extent) if math.gcd(k, extent) == 1])
    index = Index("%", Index("+", Index("*", "i", step), rng.randint(0, extent)), extent)
    if kind < 0.5:
        index = Index("%", Index("+", index, rng.randint(1, extent)), extent)
    return index


KINDS = (read, read, gathered, chained, chained, summed, rolled, bound)


def random_program(seed: int, number: int) -> Program:
    """Return one of a seed's programs; the same in every process."""
    rng = random.Random(f"{seed} {number}")
    return rng.choice(KINDS)(rng)
