"""Small programs, one for each pattern that a primitive looks for, and what numpy makes of them.

Values are small integers, and every result is exact in any order of evaluation. There is space
around each array, which a program must leave as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload

Array = np.ndarray[Any, Any]
_SPACE = 64
_OUTSIDE = 77
"""Number of elements before and after each array, and their value."""
_EXTENTS = range(4, 13)
DTYPES = ("float32", "float32", "float64", "int32", "int64", "float16")


@dataclass(frozen=True)
class Program:
    """A program, and its arguments.

    Attributes
    ----------
    kind: name of what it does.
    dtype: of its tensors.
    inputs: values of its first arguments.
    expected: values of the others.
    text: the program in TVMScript.
    """

    kind: str
    dtype: str
    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    text: str

    @cached_property
    def workload(self) -> Workload:
        return from_script(self.text, self.kind)

    def is_right(self, run: Callable[..., Any]) -> bool:
        """Run the compiled program; tell whether it wrote what numpy does, and nothing else."""
        arrays = [*self.inputs, *(np.full_like(value, 99) for value in self.expected)]
        places = [_surrounded(array) for array in arrays]
        run(*(inner for _, inner in places))
        for (whole, inner), right in zip(places, (*self.inputs, *self.expected), strict=True):
            if not np.array_equal(inner, right):
                return False
            if not (whole[:_SPACE] == _OUTSIDE).all() or not (whole[-_SPACE:] == _OUTSIDE).all():
                return False
        return True


def _surrounded(value: Array) -> tuple[Array, Array]:
    whole = np.full(value.size + 2 * _SPACE, _OUTSIDE, value.dtype)
    inner = whole[_SPACE : _SPACE + value.size].reshape(value.shape)
    inner[...] = value
    return whole, inner


class _Draw:
    """The parts that the kinds of programs are made of."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(DTYPES)
        self._values = np.random.default_rng(rng.randrange(2**32))
        self._arguments: list[str] = []
        self._inputs: list[Array] = []
        self._buffers: list[str] = []

    def extents(self, count: int) -> list[int]:
        return [self.rng.choice(_EXTENTS) for _ in range(count)]

    def given(self, name: str, *shape: int, dtype: str = "", below: int = 0) -> Array:
        """Add an input, of small integers or of places in 0..below; return its values."""
        low, high = (0, below) if below else (-3, 4)
        values = self._values.integers(low, high, shape).astype(dtype or self.dtype)
        self._inputs.append(values)
        self._arguments.append(f"{name}: T.Buffer({shape}, '{dtype or self.dtype}')")
        return values

    def buffer(self, name: str, *shape: int) -> None:
        """Add an intermediate buffer."""
        self._buffers.append(f"{name} = T.sblock_alloc_buffer({shape}, '{self.dtype}')")

    def number(self, value: int) -> str:
        return f"T.{self.dtype}({value})"

    def program(self, kind: str, body: Sequence[str], results: Mapping[str, Array]) -> Program:
        """Return a program of blocks; ``results`` are the outputs by name."""
        for name, value in results.items():
            self._arguments.append(f"{name}: T.Buffer({value.shape}, '{self.dtype}')")
        lines = [*self._buffers, *(line for block in body for line in block.splitlines())]
        text = f"@T.prim_func(s_tir=True)\ndef main({', '.join(self._arguments)}):\n"
        text += "".join(f"    {line}\n" for line in lines)
        expected = tuple(value.astype(self.dtype) for value in results.values())
        return Program(kind, self.dtype, tuple(self._inputs), expected, text)


def _block(
    name: str, axes: str, extents: Sequence[int], store: str, init: str = "", names: str = ""
) -> str:
    """Write a block over loops, such as ``axes="ijk", kinds "SSR"``; upper case is reduced."""
    variables = [f"v{axis.lower()}" for axis in axes]
    loops = [f"{axis.lower()}{names}" for axis in axes]
    kinds = "".join("R" if axis.isupper() else "S" for axis in axes)
    grid = f"T.grid({', '.join(map(str, extents))})" if len(axes) > 1 else f"range({extents[0]})"
    lines = [
        f"for {', '.join(loops)} in {grid}:",
        f"    with T.sblock('{name}'):",
        f"        {', '.join(variables)} = T.axis.remap('{kinds}', [{', '.join(loops)}])"
        if len(axes) > 1
        else f"        {variables[0]} = T.axis.remap('{kinds}', [{loops[0]}])",
    ]
    if init:
        lines += ["        with T.init():", f"            {init}"]
    lines += [f"        {line}" for line in store.splitlines()]
    return "\n".join(lines)


def chained(rng: random.Random) -> Program:
    """``B = A * 2``, and ``C`` reads it plainly, transposed, reversed, or beside ``A``."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    a = draw.given("A", n, m)
    draw.buffer("B", n, m)
    b = a * 2
    way = rng.choice(("plain", "transposed", "reversed", "strided", "twice"))
    shape, read, c = {
        "plain": ((n, m), "B[vi, vj]", b),
        "transposed": ((m, n), "B[vj, vi]", b.T),
        "reversed": ((n, m), f"B[{n - 1} - vi, vj]", b[::-1]),
        "strided": ((n, m // 2), "B[vi, vj * 2]", b[:, : m // 2 * 2 : 2]),
        "twice": ((n, m), "B[vi, vj] + A[vi, vj]", b + a),
    }[way]
    blocks = [
        _block("B", "ij", (n, m), f"B[vi, vj] = A[vi, vj] * {draw.number(2)}"),
        _block("C", "ij", shape, f"C[vi, vj] = {read} + {draw.number(1)}"),
    ]
    return draw.program(f"chained, {way}", blocks, {"C": c + 1})


def copied(rng: random.Random) -> Program:
    """``C = A``, transposed or not."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    a = draw.given("A", n, m)
    if rng.random() < 0.5:
        blocks = [_block("C", "ij", (n, m), "C[vi, vj] = A[vi, vj]")]
        return draw.program("copied", blocks, {"C": a})
    blocks = [_block("C", "ij", (m, n), "C[vi, vj] = A[vj, vi]")]
    return draw.program("copied, transposed", blocks, {"C": a.T})


def siblings(rng: random.Random) -> Program:
    """``C = A * 2`` and ``D = A + 1``, or ``D = A + C``: two outputs."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    a = draw.given("A", n, m)
    reads = rng.random() < 0.5
    other = "C[vi, vj]" if reads else draw.number(1)
    blocks = [
        _block("C", "ij", (n, m), f"C[vi, vj] = A[vi, vj] * {draw.number(2)}"),
        _block("D", "ij", (n, m), f"D[vi, vj] = A[vi, vj] + {other}"),
    ]
    return draw.program("siblings", blocks, {"C": a * 2, "D": a + (a * 2 if reads else 1)})


def producted(rng: random.Random) -> Program:
    """``C = A @ B``."""
    draw = _Draw(rng)
    n, m, k = draw.extents(3)
    a, b = draw.given("A", n, k), draw.given("B", k, m)
    sum_ = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    blocks = [_block("C", "ijK", (n, m, k), sum_, f"C[vi, vj] = {draw.number(0)}")]
    return draw.program("product", blocks, {"C": a @ b})


def finished(rng: random.Random) -> Program:
    """``C = A @ B``, and an epilogue of it, of which few can be fused."""
    draw = _Draw(rng)
    n, m, k = draw.extents(3)
    a, b, bias = draw.given("A", n, k), draw.given("B", k, m), draw.given("bias", m)
    draw.buffer("C", n, m)
    c = a @ b
    zero = draw.number(0)
    way, shape, value, right = rng.choice(
        [
            ("plus bias", (n, m), "C[vi, vj] + bias[vj]", c + bias),
            ("bias plus", (n, m), "bias[vj] + C[vi, vj]", c + bias),
            ("minus bias", (n, m), "C[vi, vj] - bias[vj]", c - bias),
            ("bias minus", (n, m), "bias[vj] - C[vi, vj]", bias - c),
            ("doubled", (n, m), "C[vi, vj] + C[vi, vj]", c + c),
            ("scaled", (n, m), f"C[vi, vj] * {draw.number(2)} + bias[vj]", c * 2 + bias),
            ("rectified", (n, m), f"T.max(C[vi, vj], {zero})", np.maximum(c, 0)),
            ("sum, rectified", (n, m), f"T.max(C[vi, vj] + bias[vj], {zero})",
             np.maximum(c + bias, 0)),
            ("transposed", (m, n), "C[vj, vi] + bias[vi]", (c + bias).T),
            ("reversed", (n, m), f"C[{n - 1} - vi, vj] + bias[vj]", c[::-1] + bias),
            ("strided", (n // 2, m), "C[vi * 2, vj] + bias[vj]", c[: n // 2 * 2 : 2] + bias),
            ("cut", (n - 1, m), "C[vi + 1, vj] + bias[vj]", c[1:] + bias),
        ]
    )  # fmt: skip
    sum_ = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    stored = f"{'D'}[vi, vj] = {value}"
    if rng.random() < 0.2:
        way, stored, right, shape = f"{way}, stored turned", f"D[vj, vi] = {value}", right.T, shape
    blocks = [
        _block("C", "ijK", (n, m, k), sum_, f"C[vi, vj] = {zero}"),
        _block("D", "ij", shape, stored),
    ]
    return draw.program(f"product, {way}", blocks, {"D": right})


def reduced(rng: random.Random) -> Program:
    """``R`` is a sum, a maximum or a minimum of each row; ``C = A - R`` or a sum of R."""
    draw = _Draw(rng)
    n, k = draw.extents(2)
    a = draw.given("A", n, k)
    draw.buffer("R", n)
    sign, init, store = rng.choice(
        [
            (np.sum, draw.number(0), "R[vi] = R[vi] + A[vi, vk]"),
            (np.max, draw.number(-9), "R[vi] = T.max(R[vi], A[vi, vk])"),
            (np.min, draw.number(9), "R[vi] = T.min(R[vi], A[vi, vk])"),
        ]
    )
    r = sign(a, axis=1)
    blocks = [_block("R", "iK", (n, k), store, f"R[vi] = {init}")]
    if rng.random() < 0.3:
        blocks.append(_block("C", "i", (n,), f"C[vi] = R[vi] + {draw.number(1)}"))
        return draw.program(f"rows' {sign.__name__}", blocks, {"C": r + 1})
    blocks.append(_block("C", "ij", (n, k), "C[vi, vj] = A[vi, vj] - R[vi]"))
    return draw.program(f"rows less {sign.__name__}", blocks, {"C": a - r[:, None]})


def normalised(rng: random.Random) -> Program:
    """Rows' maxima, what is left, its sum, and both together: the form of a softmax."""
    draw = _Draw(rng)
    n, k = draw.extents(2)
    a = draw.given("A", n, k)
    for name, shape in (("M", (n,)), ("E", (n, k)), ("S", (n,))):
        draw.buffer(name, *shape)
    most = "M[vi] = T.max(M[vi], A[vi, vk])"
    blocks = [
        _block("M", "iK", (n, k), most, f"M[vi] = {draw.number(-9)}"),
        _block("E", "ij", (n, k), "E[vi, vj] = A[vi, vj] - M[vi]"),
        _block("S", "iK", (n, k), "S[vi] = S[vi] + E[vi, vk]", f"S[vi] = {draw.number(0)}"),
        _block("C", "ij", (n, k), "C[vi, vj] = E[vi, vj] + S[vi]"),
    ]
    e = a - a.max(1, keepdims=True)
    return draw.program("normalised", blocks, {"C": e + e.sum(1, keepdims=True)})


def padded(rng: random.Random) -> Program:
    """A padded copy, and a window's sums of it, or a plain copy out."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    width = rng.choice((2, 3))
    a = draw.given("A", n, m)
    draw.buffer("P", n, m + 2)
    value = f"T.if_then_else(1 <= vj and vj < {m + 1}, A[vi, vj - 1], {draw.number(0)})"
    blocks = [_block("P", "ij", (n, m + 2), f"P[vi, vj] = {value}")]
    p = np.pad(a, ((0, 0), (1, 1)))
    if rng.random() < 0.4:
        blocks.append(_block("C", "ij", (n, m + 2), f"C[vi, vj] = P[vi, vj] + {draw.number(1)}"))
        return draw.program("padded", blocks, {"C": p + 1})
    out = m + 3 - width
    w = draw.given("W", width)
    sum_ = "C[vi, vj] = C[vi, vj] + P[vi, vj + vk] * W[vk]"
    blocks.append(_block("C", "ijK", (n, out, width), sum_, f"C[vi, vj] = {draw.number(0)}"))
    c = sum(p[:, place : place + out] * w[place] for place in range(width))
    return draw.program("convolved", blocks, {"C": np.asarray(c)})


def windowed(rng: random.Random) -> Program:
    """``B = A + 1``, and ``C[i] = B[i] + B[i + 1] - B[i + 2]`` along one axis."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    a = draw.given("A", n + 2, m)
    draw.buffer("B", n + 2, m)
    b = a + 1
    value = "B[vi, vj] + B[vi + 1, vj] - B[vi + 2, vj]"
    blocks = [
        _block("B", "ij", (n + 2, m), f"B[vi, vj] = A[vi, vj] + {draw.number(1)}"),
        _block("C", "ij", (n, m), f"C[vi, vj] = {value}"),
    ]
    return draw.program("windowed", blocks, {"C": b[:-2] + b[1:-1] - b[2:]})


def gathered(rng: random.Random) -> Program:
    """``B = A * 2``, and ``C`` reads rows of it by a table."""
    draw = _Draw(rng)
    n, m, rows = draw.extents(3)
    a = draw.given("A", n, m)
    table = draw.given("T_", rows, dtype="int32", below=n)
    draw.buffer("B", n, m)
    blocks = [
        _block("B", "ij", (n, m), f"B[vi, vj] = A[vi, vj] * {draw.number(2)}"),
        _block("C", "ij", (rows, m), f"C[vi, vj] = B[T_[vi], vj] + {draw.number(1)}"),
    ]
    return draw.program("gathered", blocks, {"C": a[table] * 2 + 1})


def joined(rng: random.Random) -> Program:
    """``C`` is two tensors side by side; each part is a block, or one block chooses."""
    draw = _Draw(rng)
    n, m, o = draw.extents(3)
    a, b = draw.given("A", n, m), draw.given("B", n, o)
    c = np.concatenate([a, b], 1)
    if rng.random() < 0.5:
        value = f"T.if_then_else(vj < {m}, A[vi, vj], B[vi, vj - {m}])"
        blocks = [_block("C", "ij", (n, m + o), f"C[vi, vj] = {value}")]
    else:
        blocks = [
            _block("C", "ij", (n, m), "C[vi, vj] = A[vi, vj]"),
            _block("D", "ij", (n, o), f"C[vi, vj + {m}] = B[vi, vj]"),
        ]
    return draw.program("joined", blocks, {"C": c})


def two_products(rng: random.Random) -> Program:
    """``D = (A @ B) @ E``."""
    draw = _Draw(rng)
    n, m, k = (rng.choice((4, 5, 7, 8)) for _ in range(3))
    a, b, e = draw.given("A", n, k), draw.given("B", k, m), draw.given("E", m, k)
    draw.buffer("C", n, m)
    zero = draw.number(0)
    first = "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    second = "D[vi, vj] = D[vi, vj] + C[vi, vk] * E[vk, vj]"
    blocks = [
        _block("C", "ijK", (n, m, k), first, f"C[vi, vj] = {zero}"),
        _block("D", "ijK", (n, k, m), second, f"D[vi, vj] = {zero}"),
    ]
    return draw.program("two products", blocks, {"D": a @ b @ e})


def rewritten(rng: random.Random) -> Program:
    """``T = A * 2``, ``T = T + 1`` or with its maxima, and ``C`` reads it: two blocks write it."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    a = draw.given("A", n, m)
    draw.buffer("T_", n, m)
    first = _block("T", "ij", (n, m), f"T_[vi, vj] = A[vi, vj] * {draw.number(2)}")
    change, right = rng.choice(
        [
            (f"T_[vi, vj] + {draw.number(1)}", a * 2 + 1),
            ("T_[vi, vj] - A[vi, vj]", a),
            (f"T.max(T_[vi, vj], {draw.number(0)})", np.maximum(a * 2, 0)),
        ]
    )
    blocks = [first, _block("U", "ij", (n, m), f"T_[vi, vj] = {change}")]
    if rng.random() < 0.5:
        blocks.append(_block("C", "ij", (n, m), "C[vi, vj] = T_[vi, vj]"))
        return draw.program("rewritten", blocks, {"C": right})
    store = "C[vi] = C[vi] + T_[vi, vk]"
    blocks.append(_block("C", "iK", (n, m), store, f"C[vi] = {draw.number(0)}"))
    return draw.program("rewritten, summed", blocks, {"C": right.sum(1)})


def overtaken(rng: random.Random) -> Program:
    """``C = T``, and then ``T`` is written anew for ``D``: an order that no value says."""
    draw = _Draw(rng)
    n, m = draw.extents(2)
    a = draw.given("A", n, m)
    draw.buffer("T_", n, m)
    blocks = [
        _block("T", "ij", (n, m), f"T_[vi, vj] = A[vi, vj] * {draw.number(2)}"),
        _block("C", "ij", (n, m), "C[vi, vj] = T_[vi, vj]"),
        _block("U", "ij", (n, m), f"T_[vi, vj] = A[vi, vj] + {draw.number(1)}"),
        _block("D", "ij", (n, m), "D[vi, vj] = T_[vi, vj]"),
    ]
    return draw.program("overtaken", blocks, {"C": a * 2, "D": a + 1})


KINDS = (
    chained, copied, siblings, producted, finished, finished, reduced, normalised, padded, padded,
    windowed, gathered, joined, two_products, rewritten, overtaken,
)  # fmt: skip


def random_program(seed: int, number: int) -> Program:
    """Return the program of a number."""
    rng = random.Random(f"{seed} {number}")
    return rng.choice(KINDS)(rng)
