"""Programs that are wrong, and right on inputs of one character."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx
from tvm.ir import IRModule

from schedlang.codec import decode, encode
from schedlang.targets.measure.draws import (
    EDGES,
    PLAIN,
    SPECIAL,
    SPREADS,
    WIDE,
    InputDraw,
    choose_draws,
    draw_count,
    plain_draw,
)
from schedlang.targets.measure.inputs import InputSource, perturbed
from schedlang.tvm.analysis.index_ranges import IntegerUses, ValueRange, integer_uses
from schedlang.tvm.analysis.value_room import ValueRoom, value_room
from schedlang.workloads import from_prim_func, matmul, softmax as softmax_workload
from schedlang.workloads.workload import Argument
from tests.targets.measure.test_runner import bench_of, outcome, reason
from tests.targets.programs import from_body

Compute = Callable[..., Any]


def elementwise(shape: tuple[int, ...], dtypes: tuple[str, ...], compute: Compute) -> IRModule:
    """A program whose elements are ``compute`` of those of its inputs."""
    inputs = [te.placeholder(shape, dtype, name=f"X{n}") for n, dtype in enumerate(dtypes)]
    out = te.compute(shape, lambda *axes: compute(*(x[axes] for x in inputs)), name="Y")
    return IRModule({"main": te.create_prim_func([*inputs, out])})


def gather(clamp: int, *, safe: bool) -> IRModule:
    """Rows of a table of 1,000; ``safe`` clamps the index as the program itself does."""
    table = te.placeholder((1000,), "float32", name="T")
    index = te.placeholder((16,), "int32", name="I")

    def row(i: Any) -> Any:
        place = tirx.min(index[i], tirx.const(clamp - 1, "int32"))
        return table[tirx.max(place, tirx.const(0, "int32")) if safe else place]

    return IRModule({"main": te.create_prim_func([table, index, te.compute((16,), row)])})


def softmax(*, shifted: bool) -> IRModule:
    x = te.placeholder((16, 32), "float32", name="X")
    k, m = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 32), name="m")
    top = te.compute((16,), lambda i: te.max(x[i, m], axis=m), name="M")
    power = te.compute(
        (16, 32), lambda i, j: te.exp(x[i, j] - top[i] if shifted else x[i, j]), name="E"
    )
    total = te.compute((16,), lambda i: te.sum(power[i, k], axis=k), name="S")
    out = te.compute((16, 32), lambda i, j: power[i, j] / total[i], name="Y")
    return IRModule({"main": te.create_prim_func([x, out])})


def relu(dtype: str) -> Compute:
    return lambda x: tirx.max(x, tirx.const(0, dtype))


F32, I32, I64, I8 = ("float32",), ("int32",), ("int64",), ("int8",)
ZERO, ONE = (tirx.const(value, "float32") for value in (0.0, 1.0))
WRONG = {
    "a relu beside a root": (
        elementwise((64,), F32 * 2, lambda x, y: te.sqrt(x) + relu("float32")(y)),
        elementwise((64,), F32 * 2, lambda x, y: te.sqrt(x) + y),
    ),
    "a relu of integers": (
        elementwise((64,), I32, relu("int32")),
        elementwise((64,), I32, lambda x: x),
    ),
    "a square of integers": (
        elementwise((2, 8), I64, lambda x: x * x),
        elementwise((2, 8), I64, lambda x: x),
    ),
    "a shift": (
        elementwise((64,), I32, lambda x: x >> 8),
        elementwise((64,), I32, lambda x: x * 0),
    ),
    "an absolute value": (
        elementwise((16,), I32, lambda x: tirx.abs(x)),
        elementwise((16,), I32, lambda x: x),
    ),
    "the high bits": (
        elementwise((16,), I64, lambda x: x),
        elementwise((16,), I64, lambda x: x & tirx.const(0xFFFFFFFF, "int64")),
    ),
    "few rows": (gather(1000, safe=False), gather(16, safe=False)),
    "few rows of a clamped index": (gather(1000, safe=True), gather(16, safe=True)),
    "a minimum with 1": (
        elementwise((64,), F32, lambda x: tirx.min(x, ONE)),
        elementwise((64,), F32, lambda x: x),
    ),
    "a threshold of 2": (
        elementwise((64,), F32, lambda x: tirx.max(x - ONE - ONE, ZERO)),
        elementwise((64,), F32, lambda x: x * ZERO),
    ),
    "a test for 0": (
        elementwise((64,), F32, lambda x: tirx.Select(x * ONE == ZERO, ONE, x * ONE)),
        elementwise((64,), F32, lambda x: x),
    ),
    "softmax without its maximum": (softmax(shifted=True), softmax(shifted=False)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_program_that_is_right_on_one_character_only_is_found(name: str) -> None:
    right, wrong = WRONG[name]
    bench = bench_of(from_prim_func(right["main"]))
    for _ in range(3):
        assert "differ" in reason(bench, wrong)
        assert outcome(bench, right).verified


def test_all_draws_are_those_of_the_seed_and_survive_json() -> None:
    args = [Argument("x", (8,), "float32", "input"), Argument("n", (8,), "int32", "input")]
    source = InputSource(args, 3, IntegerUses({}, frozenset(), frozenset(), frozenset({1})))
    draw = InputDraw(1, (WIDE, SPECIAL), frozenset({0}))
    assert decode(type(draw), json.loads(json.dumps(encode(draw)))) == draw
    for one, again in zip(source.values(draw), source.values(draw), strict=True):
        assert one is not None and again is not None and (one == again).all()
    x = source.values(draw)[0]
    assert x is not None and x.min() >= 0.1 and x.max() > 1


@pytest.mark.parametrize(
    ("dtype", "large"), [("float16", 16), ("bfloat16", 100), ("float32", 100), ("float64", 800)]
)
def test_special_numbers(dtype: str, large: int) -> None:
    args = [Argument("x", (1000,), dtype, "input")]
    [x] = InputSource(args, 0).values(InputDraw(2, (SPECIAL,)))
    assert x is not None and x.dtype == np.dtype(dtype)
    found = {float(value) for value in x}
    assert {0.0, 1.0, -1.0, large, -large} <= found and len(found) > 100
    assert (np.signbit(x) & (x == 0)).any()
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(x)).any() and np.isfinite(np.exp(x / 2)).all()


def test_a_positive_argument_is_positive_in_all_draws_and_the_others_are_not() -> None:
    args = [Argument(name, (64,), "float32", "input") for name in "xy"]
    source = InputSource(args, 0)

    def attempt(draw: InputDraw) -> InputDraw | None:
        x, y = source.values(draw)
        assert x is not None and y is not None
        return draw if (y > 0).all() else None

    chosen = choose_draws(args, 3, attempt, lambda draw: True)
    assert [draw.positive for draw in chosen] == [frozenset({1})] * 3
    assert [draw.spreads for draw in chosen] == [(PLAIN,) * 2, (WIDE,) * 2, (SPECIAL,) * 2]


def test_an_argument_that_must_be_small_is_and_the_others_are_not() -> None:
    args = [Argument(name, (64,), "float32", "input") for name in "xy"]
    source = InputSource(args, 0)

    def attempt(draw: InputDraw) -> InputDraw | None:
        x, _ = source.values(draw)
        return draw if x is not None and np.abs(x).max() <= 1 else None

    chosen = choose_draws(args, 3, attempt, lambda draw: True)
    assert [draw.spreads for draw in chosen] == [(PLAIN,) * 2, (PLAIN, WIDE), (PLAIN, SPECIAL)]


def test_a_draw_without_finite_results_is_replaced_by_a_tamer_one() -> None:
    args = [Argument("x", (64,), "float32", "input")]
    chosen = choose_draws(args, 3, lambda draw: draw, lambda draw: draw.spreads[0] != SPECIAL)
    assert [draw.spreads for draw in chosen] == [(PLAIN,), (WIDE,), (WIDE,)]
    assert [draw.number for draw in chosen] == [0, 1, 2]


def test_no_draw_at_all_where_all_give_nan() -> None:
    args = [Argument("x", (64,), "float32", "input")]
    assert choose_draws(args, 3, lambda draw: None, lambda draw: True) == []


def test_integers_fill_what_the_program_leaves_them() -> None:
    args = [Argument(name, (2000,), "int32", "input") for name in "ab"]
    uses = IntegerUses({1: ValueRange(3, 999)}, frozenset(), frozenset(), frozenset({0}))
    source = InputSource(args, 0, uses, ValueRoom(bits=15))
    for kind in (WIDE, SPECIAL):
        a, b = source.values(InputDraw(1, (kind, kind)))
        assert a is not None and b is not None
        assert (a.min(), a.max()) == (-(2**15) + 1, 2**15 - 1)
        for low, high in ((1, 2), (2, 16), (16, 256), (256, 1 << 14)):
            assert ((a >= low) & (a < high)).any() and ((a > -high) & (a <= -low)).any()
        assert (b.min(), b.max()) == (3, 999)


ENDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", ENDS)
def test_special_integers_have_their_ends_alone_and_side_by_side(dtype: str) -> None:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    far = low or high
    args = [Argument(name, (12, 16), dtype, "input") for name in "ab"]
    uses = IntegerUses({}, frozenset(), frozenset(), frozenset({0, 1}))
    a, b = InputSource(args, 0, uses, ValueRoom(bits=64)).values(InputDraw(2, (SPECIAL,) * 2))
    assert a is not None and b is not None and not (a == b).all()
    first, second = a.reshape(-1), b.reshape(-1)
    assert (first[:24] == far).all() and (second[:24] == far).all()
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    assert {(x, y) for x in (low, high) for y in (low, high)} <= pairs
    assert any(x == low and y not in (low, high) for x, y in pairs)
    assert 0.2 < np.mean((a != low) & (a != high)) < 0.5
    little = InputSource(args, 0, uses, ValueRoom(bits=0)).values(InputDraw(2, (SPECIAL,) * 2))[0]
    assert little is not None and len(set(little[0].tolist())) > 4


def test_indices_have_all_values_that_there_is_room_for() -> None:
    args = [Argument("i", (40, 10), "int32", "input")]
    uses = IntegerUses({0: ValueRange(-7, 992)}, frozenset({0}), frozenset(), frozenset({0}))
    source = InputSource(args, 3, uses, ValueRoom(bits=31))
    draws = [source.values(InputDraw(n, (kind,)))[0] for n, kind in enumerate(SPREADS[1:], start=1)]
    for one in draws:
        assert one is not None and one.min() == -7 and one.max() == 992
        assert 290 <= len(set(one.reshape(-1).tolist())) <= 302
    assert len(set(np.concatenate(draws).reshape(-1).tolist())) >= 890  # type: ignore[arg-type]
    few = replace(source, uses=replace(uses, ranges={0: ValueRange(0, 279)}))
    [found] = few.values(InputDraw(1, (WIDE,)))
    assert found is not None and len(set(found.reshape(-1).tolist())) >= 278
    huge = replace(source, uses=replace(uses, ranges={0: ValueRange(0, 10**9)}))
    [found] = huge.values(InputDraw(2, (SPECIAL,)))
    assert found is not None and len(set(found.reshape(-1).tolist())) >= 290


def test_sums_of_ends_stay_below_the_end_of_their_type() -> None:
    signature = 'X: T.Buffer((64,), "int32"), Y: T.Buffer((16,), "int32")'
    mod = from_body(SUM.format("X[vk]"), signature)
    source = InputSource(
        [Argument("X", (64,), "int32", "input")], 0, integer_uses(mod), value_room(mod)
    )
    for number, kind in enumerate((WIDE, SPECIAL, EDGES), start=1):
        [x] = source.values(InputDraw(number, (kind,)))
        assert x is not None and np.abs(x.astype(np.int64)).sum() < 2**31


def test_plain_and_wide_small_integers_have_their_least() -> None:
    args = [Argument("x", (4000,), "int8", "input")]
    uses = IntegerUses({}, frozenset(), frozenset(), frozenset({0}))
    for number, kind in enumerate((PLAIN, WIDE, SPECIAL)):
        [x] = InputSource(args, 0, uses).values(InputDraw(number, (kind,)))
        assert x is not None and (x == -128).any()


def test_numbers_that_programs_may_ask_for_are_not_perturbed() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 2.5, 3.0, 65504.0], np.float16)
    changed = perturbed(x, 4e-3, np.random.default_rng(0))
    assert (changed[:5] == x[:5]).all() and (np.signbit(changed) == np.signbit(x)).all()
    assert changed[5] != x[5]


BITS = """
for i in T.serial(64):
    with T.sblock("Y"):
        vi = T.axis.spatial(64, i)
        Y[vi] = T.reinterpret("int32", {})
        Z[vi] = A[vi] * T.float32(0.3)
"""


@pytest.mark.parametrize("value", ["A[vi]", "A[vi] * B[vi]", "A[vi] + B[vi]"])
def test_bits_of_numbers_keep_no_draw_away(value: str) -> None:
    signature = (
        'A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), '
        'Y: T.Buffer((64,), "int32"), Z: T.Buffer((64,), "float32")'
    )
    workload = from_prim_func(from_body(BITS.format(value), signature)["main"])
    reference = bench_of(workload)._runner.reference
    assert reference is not None
    spreads = [one.draw.spreads[0] for one in reference.results]
    assert spreads == ["plain", "wide", "special", "edges"]


def test_a_draw_on_which_rounding_decides_is_left_out() -> None:
    """The sum of x and -x, each rounded: no two orders of summation agree on it."""
    x = te.placeholder((256,), "float32", name="X")
    y = te.placeholder((256,), "float32", name="Y")
    k = te.reduce_axis((0, 256), name="k")
    total = te.compute((1,), lambda i: te.sum(x[k] + y[k], axis=k), name="S")
    bench = bench_of(from_prim_func(te.create_prim_func([x, y, total])))
    data = bench._runner._data
    values = data._source.values

    def cancelling(draw: InputDraw) -> list[Any]:
        x, y, out = values(draw)
        if draw.number == 2:
            assert x is not None
            y = -np.roll(x, 1)
        return [x, y, out]

    object.__setattr__(data._source, "values", cancelling)
    data._values.clear()
    found = bench._runner.learn(bench._unscheduled_program(), bench._wide_program())
    assert [one.draw.number for one in found.results] == [0, 1]


def test_both_ends_of_a_range_occur_in_small_tensors() -> None:
    args = [Argument("i", (4,), "int32", "input")]
    uses = IntegerUses({0: ValueRange(0, 9999)}, frozenset(), frozenset())
    [i] = InputSource(args, 0, uses).values(InputDraw(1, (WIDE,)))
    assert i is not None and {0, 9999} <= set(i.tolist())


def test_equal_numbers_are_rare_where_the_place_of_one_is_asked_for() -> None:
    args = [Argument("x", (100,), "float32", "input")]
    [x] = InputSource(args, 0, room=ValueRoom(ties=False)).values(InputDraw(2, (SPECIAL,)))
    assert x is not None and len(set(x.tolist())) == 100


def room(signature: str, body: str) -> ValueRoom:
    return value_room(from_body(body, signature))


ROW = """
for i in T.serial(16):
    with T.sblock("Y"):
        vi = T.axis.spatial(16, i)
        Y[vi] = {}
"""
SUM = """
for i, k in T.grid(16, 64):
    with T.sblock("Y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            Y[vi] = T.int32(0)
        Y[vi] = Y[vi] + {}
"""


@pytest.mark.parametrize(
    ("body", "bits"),
    [
        (ROW.format("X[vi]"), 64),
        (ROW.format("X[vi] + X[vi]"), 30),
        (ROW.format("X[vi] * X[vi]"), 15),
        (ROW.format("T.max(X[vi], T.int32(0))"), 64),
        (ROW.format("T.shift_left(X[vi], T.int32(4))"), 64),
        (ROW.format("T.shift_left(X[vi], T.int32(4)) + T.int32(1)"), 24),
        (ROW.format("T.shift_right(T.int32(4), X[vi])"), 0),
        (ROW.format("T.bitwise_xor(X[vi], T.shift_right(X[vi], T.int32(3)))"), 64),
        (ROW.format("T.abs(X[vi]) // T.int32(3) - X[vi] % T.int32(5)"), 31),
        (ROW.format("T.abs(X[vi])"), 31),
        (ROW.format("T.int32(0) - X[vi]"), 31),
        (ROW.format("T.max(X[vi], T.int32(7)) - T.int32(9)"), 64),
        (ROW.format("T.Cast('int32', (T.Cast('int64', X[vi]) + T.Cast('int64', X[0])) // 2)"), 64),
        (ROW.format("T.Cast('int32', T.Cast('int64', X[vi]) * T.int64(70000))"), 64),
        (ROW.format("X[vi] * T.int32(1000000007)"), 0),
        (SUM.format("X[vk]"), 24),
        (SUM.format("X[vk] * X[vi]"), 12),
    ],
)
def test_integers_do_not_overflow(body: str, bits: int) -> None:
    shape = "(64,)" if "vk" in body else "(16,)"
    signature = f'X: T.Buffer({shape}, "int32"), Y: T.Buffer((16,), "int32")'
    assert room(signature, body).bits == bits


def test_numbers_that_are_rounded_stay_small_unless_they_are_clipped() -> None:
    signature = 'X: T.Buffer((16,), "float32"), Y: T.Buffer((16,), "int8")'
    scaled = "X[vi] * T.float32(50)"
    clipped = f"T.min(T.max(T.round({scaled}), T.float32(-127)), T.float32(127))"
    assert not room(signature, ROW.format(f'T.Cast("int8", {scaled})')).wide
    assert room(signature, ROW.format(f'T.Cast("int8", {clipped})')).special
    wide = signature.replace("int8", "int32")
    found = room(wide, ROW.format(f'T.Cast("int32", {scaled})'))
    assert found.wide and not found.special


def test_what_an_index_or_a_length_depends_on_is_not_free() -> None:
    signature = (
        'P: T.Buffer((16,), "int32"), Q: T.Buffer((16,), "int32"), '
        'X: T.Buffer((64,), "float32"), Y: T.Buffer((16,), "float32")'
    )
    body = ROW.format("X[T.shift_left(P[vi], T.int32(1))] * T.Cast('float32', Q[vi])")
    assert integer_uses(from_body(body, signature)).free == {1}
    clamped = ROW.format("X[T.max(T.min(P[vi], T.int32(63)), T.int32(0))]")
    assert integer_uses(from_body(clamped, signature)).free == {0, 1}


def test_fewer_draws_of_large_workloads() -> None:
    assert draw_count(matmul(64, 64, 64)) == 3
    assert draw_count(softmax_workload(64, 64)) == 5
    assert draw_count(matmul(900, 900, 900)) == 2
    assert draw_count(matmul(4096, 4096, 4096)) == 1
    assert plain_draw(matmul(8, 8, 8).args).spreads == (PLAIN,) * 3
