"""``split_packing``: what depends on weights only runs ahead, and the results stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm

from schedlang import workloads
from schedlang.language.schedule import Schedule
from schedlang.tvm import program
from schedlang.tvm.packing import (
    SplitFunction,
    split_packing,
    weight_positions,
    with_weights,
)
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload

Array = np.ndarray[Any, Any]
THREE = ", ".join(f"{name}: T.Buffer((16,), 'float32')" for name in "AWC")


def marked(workload: Workload, *positions: int) -> Workload:
    return from_prim_func(with_weights(workload.func, positions), workload.name)


def block(name: str, store: str, reads: str, writes: str) -> str:
    return (
        f"for i in range(16):\n    with T.sblock('{name}'):\n        v = T.axis.spatial(16, i)\n"
        f"        T.reads({reads})\n        T.writes({writes})\n        {store}"
    )


def function(*blocks: str, weights: Sequence[int] = (1,), parameters: str = THREE) -> Any:
    body = ["P = T.sblock_alloc_buffer((16,))", "Q = T.sblock_alloc_buffer((16,))", *blocks]
    lines = [line for text in body for line in text.splitlines()]
    text = (
        "@T.prim_func(s_tir=True)\n"
        f"def main({parameters}):\n    T.func_attr({{'layout_free_buffers': {list(weights)}}})\n"
    )
    return program.parse_script(text + "\n".join(f"    {line}" for line in lines))


def packed_at(sch: Schedule, name: str, index: int) -> None:
    """Read an operand through a transposed copy."""
    copy = sch.cache_read(sch.get_block(name), index, "global")
    sch.transform_layout(copy, ("write", 0), lambda *indices: list(reversed(indices)))


def compiled(func: Any) -> Any:
    return tvm.compile(program.as_main(func), target="llvm")["main"]


def run_whole(func: Any, values: Sequence[Array]) -> list[Array]:
    tensors = [tvm.runtime.tensor(value) for value in values]
    compiled(func)(*tensors)
    return [tensor.numpy() for tensor in tensors]


def run_split(split: SplitFunction, values: Sequence[Array]) -> list[Array]:
    tensors = [tvm.runtime.tensor(value) for value in values]
    for packing in split.packings:
        made = tvm.runtime.tensor(np.full(packing.shape, np.nan, packing.dtype))
        compiled(packing.function)(*(tensors[place] for place in packing.weights), made)
        tensors.append(made)
    compiled(split.main)(*(tensors[source] for source in split.sources))
    return [tensor.numpy() for tensor in tensors[: split.count]]


def assert_same(func: Any, split: SplitFunction | None) -> None:
    assert split is not None
    rng = np.random.default_rng(0)
    values = [
        rng.uniform(size=parameter.shape).astype(parameter.dtype)
        for parameter in program.parameters(func)
    ]
    for got, want in zip(run_split(split, values), run_whole(func, values), strict=True):
        np.testing.assert_array_equal(got, want)


def names(func: Any) -> list[str]:
    return [str(parameter.name) for parameter in func.params]


def blocks(func: Any) -> list[str]:
    return [str(realize.block.name_hint) for realize in program.block_realizes(func)]


def test_a_packed_copy_becomes_a_function_and_the_weight_a_packed_tensor() -> None:
    sch = Schedule(marked(workloads.matmul(8, 6, 4), 1))
    packed_at(sch, "C", 1)
    func = sch.mod["main"]
    split = split_packing(func)
    assert split is not None
    assert split.sources == (0, 3, 2)
    assert [(one.weights, one.shape, one.dtype) for one in split.packings] == [
        ((1,), (6, 4), "float32")
    ]
    assert names(split.main) == ["A", "B_global", "C"]
    assert (blocks(split.main), blocks(split.packings[0].function)) == (["C"], ["B_global"])
    assert weight_positions(split.main) == ()
    assert program.symbol(split.main) == "main"
    assert program.symbol(split.packings[0].function) == ""
    assert_same(func, split)


@pytest.mark.parametrize("weights", [(), (0,)])
def test_only_weights_are_packed_ahead(weights: tuple[int, ...]) -> None:
    sch = Schedule(marked(workloads.matmul(8, 6, 4), *weights))
    packed_at(sch, "C", 1)
    assert split_packing(sch.mod["main"]) is None


def test_a_flipped_kernel_is_computed_ahead_too() -> None:
    func = function(
        block("flip", "P[15 - v] = W[v]", "W[v]", "P[15 - v]"),
        block("pack", "Q[v] = P[v] * T.float32(2)", "P[v]", "Q[v]"),
        block("add", "C[v] = A[v] + Q[v]", "A[v], Q[v]", "C[v]"),
    )
    split = split_packing(func)
    assert split is not None
    assert [blocks(one.function) for one in split.packings] == [["flip", "pack"]]
    assert_same(func, split)


def test_a_weight_that_is_read_elsewhere_stays_a_parameter() -> None:
    func = function(
        block("pack", "P[v] = W[15 - v]", "W[15 - v]", "P[v]"),
        block("add", "C[v] = A[v] + P[v] * W[v]", "A[v], P[v], W[v]", "C[v]"),
    )
    split = split_packing(func)
    assert split is not None
    assert names(split.main) == ["A", "W", "P", "C"]
    assert split.sources == (0, 1, 3, 2)
    assert_same(func, split)


def test_every_tensor_that_calls_read_is_a_packing_of_its_own() -> None:
    func = function(
        block("one", "P[v] = W[15 - v]", "W[15 - v]", "P[v]"),
        block("two", "Q[v] = P[v] + W[v]", "P[v], W[v]", "Q[v]"),
        block("add", "C[v] = A[v] + P[v] * Q[v]", "A[v], P[v], Q[v]", "C[v]"),
    )
    split = split_packing(func)
    assert split is not None
    assert [blocks(one.function) for one in split.packings] == [["one"], ["one", "two"]]
    assert_same(func, split)


def test_constants_run_ahead_only_for_a_packed_tensor() -> None:
    constant = block("one", "P[v] = T.float32(3)", "", "P[v]")
    unused = function(constant, block("add", "C[v] = P[v] + W[v]", "P[v], W[v]", "C[v]"))
    assert split_packing(unused) is None
    func = function(
        constant,
        block("two", "Q[v] = P[v] + W[v]", "P[v], W[v]", "Q[v]"),
        block("add", "C[v] = A[v] + Q[v]", "A[v], Q[v]", "C[v]"),
    )
    split = split_packing(func)
    assert split is not None
    assert blocks(split.packings[0].function) == ["one", "two"]
    assert_same(func, split)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(block("b", "P[v] = P[v] + A[v]", "P[v], A[v]", "P[v]"), id="inputs"),
        pytest.param(block("b", "W[v] = T.float32(0)", "", "W[v]"), id="a weight is overwritten"),
        pytest.param(
            block("b", "Q[v] = A[v] + P[v]", "A[v], P[v]", "Q[v]")
            + "\n"
            + block("c", "P[v] = W[v]", "W[v]", "P[v]"),
            id="two values in turn",
        ),
    ],
)
def test_what_depends_on_more_than_weights_stays(later: str) -> None:
    func = function(
        block("a", "P[v] = W[15 - v]", "W[15 - v]", "P[v]"),
        later,
        block("add", "C[v] = A[v] + P[v]", "A[v], P[v]", "C[v]"),
    )
    assert split_packing(func) is None
