"""``auto_inline`` of blocks that are read several times: small programs, and a draw decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tvm import te, tirx

import schedlang as sl
from schedlang.modules.inlining import auto_inline, inline_constants
from schedlang.tvm.program import block_names
from schedlang.tvm.values import TensorLoad, found_in, operands_of
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload
from tests.properties.programs import assert_same_numbers

# The last block may have all it may repeat from each read: a few hundred operations, with their
# operands and indices. Without the bound the smallest program below has tens of thousands.
MOST_NODES = 20_000
INLINE = sl.Space([inline_constants, auto_inline(always_in_spatial_programs=True)])
# 16 wires are the smallest Batcher network with ten steps.
WIRES = 16


def stencil(points: int, dimensions: int) -> Workload:
    """Six steps; each element is the sum of ``points`` neighbours along each dimension."""
    shape = (24,) * dimensions
    first = tensor = te.placeholder(shape, name="A")
    offsets = range(-(points // 2), points // 2 + 1)
    for step in range(6):
        tensor = te.compute(shape, _mean(tensor, offsets), name=f"S{step}")
    return from_te([first, tensor], f"stencil_{points}_{dimensions}d")


def _mean(tensor: Any, offsets: range) -> Callable[..., Any]:
    def value(*at: Any) -> Any:
        total: Any = 0.0
        for axis in range(len(at)):
            for offset in offsets:
                moved = tirx.max(tirx.min(at[axis] + offset, 23), 0)
                total = total + tensor(*at[:axis], moved, *at[axis + 1 :])
        return total * (1 / (len(offsets) * len(at)))

    # TE takes the number of dimensions from the parameters.
    return value if tensor.ndim > 1 else lambda i: value(i)


def batcher(n: int) -> Iterator[list[tuple[int, int]]]:
    """The steps of Batcher's odd-even merge sort of ``n`` values, as pairs to compare."""
    p = 1
    while p < n:
        k = p
        while k >= 1:
            yield [
                (i + j, i + j + k)
                for j in range(k % p, n - k, 2 * k)
                for i in range(min(k, n - j - k))
                if (i + j) // (2 * p) == (i + j + k) // (2 * p)
            ]
            k //= 2
        p *= 2


def sorting() -> Workload:
    """Rows of 16 values sorted; each wire of each step is a block of its own."""
    rows = te.placeholder((8, WIRES), name="A")
    wires = [te.compute((8,), _column(rows, w), name=f"w{w}") for w in range(WIRES)]
    for step, pairs in enumerate(batcher(WIRES)):
        for a, b in pairs:
            low, high = wires[a], wires[b]
            for wire, take in ((a, tirx.min), (b, tirx.max)):
                pair = _pair(take, low, high)
                wires[wire] = te.compute((8,), pair, name=f"s{step}_{wire}")
    return from_te([rows, *wires], "sorting")


def _column(rows: Any, wire: int) -> Callable[[Any], Any]:
    return lambda i: rows[i, wire]


def _pair(take: Any, low: Any, high: Any) -> Callable[[Any], Any]:
    return lambda i: take(low[i], high[i])


def _square(tensor: Any) -> Callable[[Any], Any]:
    return lambda i: tensor[i] * tensor[tirx.max(i - 1, 0)]


PROGRAMS: dict[str, Callable[[], Workload]] = {
    "3 points": lambda: stencil(3, 1),
    "5 points": lambda: stencil(5, 1),
    "3 points in 2D": lambda: stencil(3, 2),
    "5 points in 2D": lambda: stencil(5, 2),
    "sorting": sorting,
}


def nodes(sch: sl.Schedule) -> int:
    """Count the expressions of the values that a program stores, shared ones each time."""
    stores = found_in(sch.mod["main"].body, tirx.BufferStore)
    return sum(_size(store.value) for store in stores)


def _size(expression: Any) -> int:
    inner = expression.indices if isinstance(expression, TensorLoad) else operands_of(expression)
    return 1 + sum(map(_size, inner))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_stay_small(name: str) -> None:
    workload = PROGRAMS[name]()
    left = set()
    for seed in range(8):
        sch = INLINE.sample(workload, seed=seed)
        assert nodes(sch) < MOST_NODES
        left.add(tuple(block_names(sch.mod)))
    if name in ("3 points", "sorting"):  # others pass over what lies between the bounds
        assert len(left) > 1, "recompute and store are both drawn"
    assert_same_numbers(sch.mod, workload, name)


@pytest.mark.slow
def test_default_space() -> None:
    workload = stencil(3, 1)
    space = sl.Target.from_key("cpu/znver4/cores=8/vector=512").default_space()
    for seed in range(3):
        sch = space.sample(workload, seed=seed)
        assert_same_numbers(sch.mod, workload, sch.trace)


@pytest.mark.parametrize(("few", "most", "blocks"), [(10**6, 10**6, 1), (0, 0, 3)])
def test_ends_of_the_range(
    monkeypatch: pytest.MonkeyPatch, few: int, most: int, blocks: int
) -> None:
    """A chain of three steps becomes one block without the bound, and stays without any repeat."""
    monkeypatch.setattr("schedlang.modules.inlining.FEW_REPEATED", few)
    monkeypatch.setattr("schedlang.modules.inlining.MAX_REPEATED", most)
    first = tensor = te.placeholder((16,), name="A")
    for step in range(3):
        tensor = te.compute((16,), _square(tensor), name=f"S{step}")
    workload = from_te([first, tensor], "squares")
    sch = INLINE.sample(workload, seed=0)
    assert len([name for name in block_names(sch.mod) if name != "root"]) == blocks
