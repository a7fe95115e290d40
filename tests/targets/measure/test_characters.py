"""Inputs of which few elements decide, all are on one side of zero, or all are equally true."""

from __future__ import annotations

import os
import sys

import ml_dtypes
import numpy as np
import pytest

from schedlang.targets.cpu.backend import GuardedMemory
from schedlang.targets.errors import WRITE_FAULT
from schedlang.targets.measure.draws import (
    BELOW,
    EDGES,
    ENDS,
    FAR_ABOVE,
    FAR_BELOW,
    PLAIN,
    SPECIAL,
    SPREADS,
    WHOLE,
    WIDE,
    InputDraw,
    choose_draws,
    spreads_of,
)
from schedlang.targets.measure.input_values import KINDS, levels, truth_values
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.numerics import Array
from schedlang.tvm.analysis.characters import Extremes, extremes_of
from schedlang.tvm.analysis.index_ranges import IntegerUses, integer_uses
from schedlang.tvm.analysis.partial_results import never_rounded
from schedlang.tvm.analysis.value_room import ValueRoom, value_room
from schedlang.workloads import from_prim_func, matmul, softmax
from schedlang.workloads.workload import Argument, Workload
from tests.targets.measure.test_runner import bench_of, outcome, reason
from tests.targets.programs import from_body

SIGNATURE = 'X: T.Buffer((6, 50), "float32"), B: T.Buffer((6, 50), "bool"), Y: T.Buffer((6,), "{}")'
REDUCTION = """
for i, k in T.grid(6, 50):
    with T.sblock("Y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            Y[vi] = {}
        Y[vi] = {}
"""


def extremes(start: str, update: str, dtype: str = "float32") -> Extremes:
    return extremes_of(from_body(REDUCTION.format(start, update), SIGNATURE.format(dtype)))


def test_the_reductions_that_select() -> None:
    zero = "T.float32(0)"
    assert extremes(zero, "T.max(Y[vi], X[vi, vk])") == Extremes(greatest=True)
    assert extremes(zero, "T.min(X[vi, vk], Y[vi])") == Extremes(least=True)
    assert extremes(zero, "Y[vi] + T.max(X[vi, vk], T.float32(0))") == Extremes()
    either = "T.Select(Y[vi] > X[vi, vk], Y[vi], X[vi, vk])"
    assert extremes(zero, either) == Extremes(greatest=True, least=True)
    padded = "Y[vi] + T.if_then_else(vk < 49, X[vi, vk], T.float32(0))"
    assert extremes(zero, padded) == Extremes()
    assert extremes("T.bool(True)", "Y[vi] and B[vi, vk]", "bool").truth


def test_draws_suit_the_program() -> None:
    assert spreads_of(matmul(8, 8, 8).mod) == (PLAIN, WHOLE, WIDE)
    assert spreads_of(softmax(8, 8).mod) == (*SPREADS, FAR_BELOW)
    text = REDUCTION.format("T.float32(0)", "T.max(Y[vi], X[vi, vk])")
    expected = (*SPREADS, ENDS, FAR_BELOW)
    assert spreads_of(from_body(text, SIGNATURE.format("float32"))) == expected
    text = REDUCTION.format("T.bool(True)", "Y[vi] and B[vi, vk]")
    found = spreads_of(from_body(text, SIGNATURE.format("bool")))
    assert {FAR_BELOW, FAR_ABOVE} <= set(found) and len(found) == 1 + KINDS


@pytest.mark.parametrize("shape", [(), (1,), (2,), (40,), (5, 7), (1, 9), (3, 4, 5), (0, 4)])
def test_only_the_edges_have_a_level(shape: tuple[int, ...]) -> None:
    found = levels(shape)
    assert found.shape == shape
    inside = tuple(slice(1, -1) if extent > 1 else slice(None) for extent in shape)
    if any(extent > 1 for extent in shape) and found.size:
        assert not found[inside].any()
        mask = np.ones(shape, np.bool_)
        mask[inside] = False
        assert (found[mask] != 0).all()


def test_the_first_or_the_last_of_a_row_is_its_extreme() -> None:
    [x] = InputSource([Argument("x", (9, 30), "float32", "input")], 0).values(
        InputDraw(3, (EDGES,))
    )
    assert x is not None
    rows = x[1:-1]
    assert set(rows.argmax(axis=1)) == set(rows.argmin(axis=1)) == {0, 29}
    assert (x.astype(np.float64).sum(axis=1) == x.sum(axis=1)).all()
    assert (np.abs(rows.sum(axis=1)) > 0).all()


def test_at_the_edges_no_numbers_are_equal_where_places_are_asked_for() -> None:
    args = [Argument("x", (20, 30), "float32", "input")]
    [x] = InputSource(args, 0, room=ValueRoom(ties=False)).values(InputDraw(3, (EDGES,)))
    assert x is not None and len(np.unique(x)) == x.size and np.abs(x).max() <= 1
    assert set(x[1:-1].argmax(axis=1)) == {0, 29}


def test_vectors_of_truth_values_have_all_kinds() -> None:
    rng = np.random.default_rng(0)
    found = [truth_values((5,), number, rng).tolist() for number in range(1, KINDS + 1)]
    yes, no = [True], [False]
    assert found == [yes * 5, no * 5, yes * 4 + no, no * 4 + yes, no + yes * 4, yes + no * 4]


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (7, 4, 8)])
def test_each_axis_has_parts_of_truth_values_that_are_alike(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    draws = [truth_values(shape, number, rng) for number in range(1, 4)]
    for axis in range(len(shape)):
        parts = [part for draw in draws for part in np.moveaxis(draw, axis, 0)]
        counts = {int(part.sum()) - (part.size if part.mean() > 0.5 else 0) for part in parts}
        assert {0, 1, -1} <= counts


def values_of(kind: str, dtype: str, shape: tuple[int, ...] = (12, 20), room: int = 40) -> Array:
    args = [Argument("x", shape, dtype, "input"), Argument("y", (4, 4), dtype, "input")]
    uses = IntegerUses({}, frozenset(), frozenset(), frozenset({0, 1}))
    x, y = InputSource(args, 0, uses, ValueRoom(bits=room)).values(InputDraw(4, (kind, kind)))
    assert x is not None and y is not None
    if np.dtype(dtype).kind != "u":
        assert (y[::2] < 0).all() != (y[1::2] < 0).all()
    return x


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exponentials_of_numbers_far_below_zero_are_zero(dtype: str) -> None:
    x = values_of(FAR_BELOW, dtype)
    assert (np.exp(x) == 0).all() and np.isfinite(x).all()
    assert set(x.argmax(axis=1)) == {0} and set(x.argmin(axis=1)) == {x.shape[1] - 1}
    assert (values_of(FAR_ABOVE, dtype) > 0).all()
    near = values_of(BELOW, dtype)
    assert (near < 0).all() and (near >= -1).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integers_far_below_zero_are_all_large(dtype: str) -> None:
    x = values_of(FAR_BELOW, dtype)
    least = max(int(np.iinfo(dtype).min), 1 - 2**40)
    assert (x <= least // 3).all() and x.min() == least
    assert values_of(FAR_BELOW, "uint8").min() >= 85


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_that_nothing_rounds_have_the_ends_of_their_type(dtype: str) -> None:
    args = [Argument(name, (40, 40), dtype, "input") for name in "xy"]
    source = InputSource(args, 0, unrounded=frozenset({0}))
    x, y = source.values(InputDraw(3, (ENDS, ENDS)))
    assert x is not None and y is not None and np.isfinite(x).all()
    info = ml_dtypes.finfo(np.dtype(dtype))
    for end in (info.max, info.tiny, info.smallest_subnormal):
        assert (x == end).any() and (x == -end).any() and not (y == end).any()
    assert (np.signbit(x) & (x == 0)).any()
    assert (x[0] < -float(info.max) / 5).all() and len(set(x.reshape(-1).tolist())) > 400
    undecided = InputSource(args, 0, room=ValueRoom(special=False), unrounded=frozenset({0}))
    [kept, _] = undecided.values(InputDraw(3, (ENDS, ENDS)))
    assert kept is not None and np.abs(kept).max() <= 10


UNROUNDED = {
    "Y[vi] = T.max(X[vi], Z[vi])": {0, 1, 2},
    "Y[vi] = T.if_then_else(X[vi] > T.float32(2), T.abs(X[vi]), T.floor(Z[vi]))": {0, 1, 2},
    "Y[vi] = X[vi] * T.float32(2)": {1},
    "Y[vi] = X[vi] + Z[vi]": set(),
    "Y[vi] = T.Cast('float32', T.Cast('float16', X[vi]))": {1},
    "Y[vi] = T.Select(T.Cast('float64', X[vi]) > T.float64(0), Z[vi], X[vi])": {0, 1, 2},
    "Y[vi] = T.Cast('float32', T.Cast('float64', X[vi]))": {1},
    "Y[vi] = T.Cast('float32', T.reinterpret('int32', X[vi]))": {1},
    "Y[vi] = T.reinterpret('float32', T.reinterpret('int32', X[vi]))": {0, 1, 2},
    "Y[vi] = T.exp(X[vi])": {1},
}


@pytest.mark.parametrize("store", UNROUNDED)
def test_what_no_operation_rounds(store: str) -> None:
    body = f"""
for i in range(9):
    with T.sblock("Y"):
        vi = T.axis.spatial(9, i)
        {store}
"""
    signature = ", ".join(f'{name}: T.Buffer((9,), "float32")' for name in "XZY")
    assert never_rounded(from_body(body, signature)) == UNROUNDED[store]


PRODUCT = """
for i, j, k in T.grid(5, 6, 7):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.int32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
for i in range(9):
    with T.sblock("E"):
        vi = T.axis.spatial(9, i)
        E[vi] = D[vi] > T.uint32(3)
"""


def test_one_factor_is_as_large_as_it_may_be_while_the_other_is_small() -> None:
    signature = (
        'A: T.Buffer((5, 7), "int32"), B: T.Buffer((7, 6), "int32"), D: T.Buffer((9,), "uint32"), '
        'C: T.Buffer((5, 6), "int32"), E: T.Buffer((9,), "bool")'
    )
    mod = from_body(PRODUCT, signature)
    room = value_room(mod)
    assert set(room.alone) >= {0, 1} and room.bits_of(2) >= 32
    assert room.bits_of(0, leading=0) > 20 > room.bits_of(0) > room.bits_of(1, leading=0)
    args = [
        Argument("A", (5, 7), "int32", "input"),
        Argument("B", (7, 6), "int32", "input"),
        Argument("D", (9,), "uint32", "input"),
    ]
    source = InputSource(args, 0, integer_uses(mod), room)
    largest = []
    for number, kind in enumerate((WIDE, SPECIAL, EDGES, FAR_BELOW), start=1):
        a, b, d = source.values(InputDraw(number, (kind,) * 3))
        assert a is not None and b is not None and d is not None
        sums = np.abs(a.astype(object)) @ np.abs(b.astype(object))
        assert sums.max() < 2**31
        largest.append((int(np.abs(a).max()), int(np.abs(b).max()), int(d.max())))
    assert max(a for a, _, _ in largest) > 2**20 and max(b for _, b, _ in largest) > 2**20
    assert max(d for _, _, d in largest) >= 2**31


def total(length: int, dtype: str, term: str = "X[vk]") -> Workload:
    body = f"""
for k in range({length}):
    with T.sblock("Y"):
        vk = T.axis.reduce({length}, k)
        with T.init():
            Y[0] = T.{dtype}(0)
        Y[0] = Y[0] + {term}
"""
    signature = f'X: T.Buffer(({length},), "{dtype}"), Y: T.Buffer((1,), "{dtype}")'
    return from_prim_func(from_body(body, signature)["main"], name="total")


@pytest.mark.parametrize(
    ("workload", "exact"),
    [
        (total(2000, "float32"), True),
        (total(2000, "float16"), True),
        (total(3000, "float16"), False),
        (total(250, "bfloat16"), True),
        (total(300, "bfloat16"), False),
        (total(300, "float32", "X[vk] * T.float32(0.5)"), None),
        (total(300, "float32", "X[vk] * T.float32(2)"), True),
        (total(300, "float32", "T.exp(X[vk])"), None),
        (total(300, "float32", "T.min(X[vk], T.float32(6))"), None),
        (total(300, "float32", "T.max(X[vk], T.float32(0))"), True),
    ],
)
def test_sums_of_whole_numbers_are_exact_where_their_type_holds_them(
    workload: Workload, exact: bool | None
) -> None:
    reference = bench_of(workload)._runner.reference
    assert reference is not None
    found = [one.exact for one in reference.results if WHOLE in one.draw.spreads]
    assert found == ([] if exact is None else [exact])


def test_one_of_very_many_terms_is_missed() -> None:
    bench = bench_of(total(100_000, "float32"))
    term = "T.if_then_else(vk == 31234, T.float32(0), X[vk])"
    assert "1 of 1 elements differ" in reason(bench, total(100_000, "float32", term).mod)
    assert outcome(bench, total(100_000, "float32", "X[99999 - vk]").mod).verified


def test_a_draw_at_the_edges_is_left_out_where_it_gives_no_numbers() -> None:
    args = [Argument("x", (64,), "float32", "input"), Argument("n", (64,), "int32", "input")]
    tried: list[InputDraw] = []

    def attempt(draw: InputDraw) -> InputDraw | None:
        tried.append(draw)
        return None if draw.spreads[0] in (EDGES, FAR_BELOW) else draw

    spreads = (*SPREADS, FAR_BELOW)
    chosen = choose_draws(args, 5, attempt, lambda draw: True, spreads=spreads)
    assert [draw.number for draw in chosen] == [0, 1, 2, 4]
    assert chosen[-1].spreads == (BELOW, FAR_BELOW)
    assert len(tried) == 6


@pytest.mark.skipif(sys.platform != "linux", reason="memory is protected on Linux only")
def test_a_write_to_memory_that_can_only_be_read_ends_the_process() -> None:
    memory = GuardedMemory((16,), "float32")
    memory.fill(np.ones(16, "float32"))
    child = os.fork()
    if child == 0:
        with memory.read_only():
            found = memory.read()
            np.from_dlpack(memory.tensor)[3] = found[2]
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == WRITE_FAULT
    with memory.read_only():
        assert memory.read().sum() == 16
    memory.fill(np.zeros(16, "float32"))
    assert memory.read().sum() == 0
