"""Numbers of more than 32 bits, where programs round to whole ones."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import BEYOND, draw_count, plain_draw, spreads_of
from schedlang.targets.measure.inputs import InputSource
from schedlang.tvm.analysis.value_room import has_room_beyond
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Argument, Workload
from tests.targets.measure.test_runner import Bench, bench_of, outcome, reason
from tests.targets.programs import from_body


def elementwise(value: str, kind: str, out: str, between: str = "") -> Workload:
    """A program that computes ``y`` of ``x``, perhaps by way of ``z``."""
    first = (
        ""
        if not between
        else f"""
z = T.sblock_alloc_buffer((256,), "{kind}")
for i in T.serial(256):
    with T.sblock("z"):
        vi = T.axis.spatial(256, i)
        z[vi] = {between}
"""
    )
    body = f"""{first}
for i in T.serial(256):
    with T.sblock("y"):
        vi = T.axis.spatial(256, i)
        y[vi] = {value}
"""
    signature = f'x: T.Buffer((256,), "{kind}"), y: T.Buffer((256,), "{out}")'
    return from_prim_func(from_body(body, signature)["main"])


def bench(workload: Workload) -> Bench:
    """It has as many draws as a measurer has."""
    made = bench_of(workload)
    draws = draw_count(workload)
    made.bind(Binding(workload.mod, workload.args, seed=0, verifies=True, draws=draws))
    return made


def through_int32(value: str, kind: str) -> str:
    return f'T.Cast("{kind}", T.Cast("int32", {value}))'


HALF, HALF32 = "x[vi] * T.float64(0.5)", "x[vi] * T.float32(0.5)"
PROGRAMS = {
    "floor": (f"T.floor({HALF})", "float64", "float64"),
    "floor of float32": (f"T.floor({HALF32})", "float32", "float32"),
    "ceil": (f"T.ceil({HALF})", "float64", "float64"),
    "nearest": (f"T.nearbyint({HALF})", "float64", "float64"),
    "trunc": (f"T.trunc({HALF})", "float64", "float64"),
    "an integer of 64 bits": (f'T.Cast("int64", {HALF})', "float64", "int64"),
    "int64": ("x[vi] // T.int64(3)", "int64", "int64"),
    "int64 as float64": ('T.Cast("float64", x[vi])', "int64", "float64"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cast_through_int32_is_found(name: str) -> None:
    value, kind, out = PROGRAMS[name]
    workload = elementwise(value, kind, out)
    made = bench(workload)
    inner = "x[vi]" if kind == "int64" else value
    wrong = value.replace(inner, through_int32(inner, kind if kind == "int64" else out))
    assert "elements differ" in reason(made, elementwise(wrong, kind, out).mod)
    assert outcome(made, workload.mod).verified


@pytest.mark.parametrize(
    ("value", "between", "room"),
    [
        ("T.floor(x[vi] * T.float64(0.5))", "", True),
        ('T.Cast("float64", T.Cast("int64", x[vi]) * T.int64(4))', "", True),
        ('T.Cast("float64", T.Cast("int64", z[vi]))', "x[vi] + T.float64(3)", True),
        (
            'T.Cast("float64", T.Cast("int8", T.max(T.min(x[vi], T.float64(127)), '
            "T.float64(-128))))",
            "",
            True,
        ),
        ("x[vi] * T.float64(0.5)", "", False),
        ('T.Cast("float64", T.Cast("int32", x[vi]))', "", False),
        ('T.Cast("float64", T.Cast("int32", z[vi]))', "T.floor(x[vi])", False),
        ('T.Cast("float64", T.Cast("int64", T.exp(x[vi])))', "", False),
        ('T.Cast("float64", T.Cast("int64", z[vi]))', "x[vi] * x[vi]", False),
        ('T.Cast("float64", T.Cast("int64", x[vi]) * T.int64(1073741824))', "", False),
        ("x[T.Cast('int64', T.max(T.min(x[vi], T.float64(3)), T.float64(0)))]", "", False),
    ],
)
def test_what_has_room_for_them(value: str, between: str, room: bool) -> None:
    mod = elementwise(value, "float64", "float64", between).mod
    assert has_room_beyond(mod) is room
    assert (BEYOND in spreads_of(mod)) is room


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_half_of_them_have_more_than_32_bits(dtype: str) -> None:
    args = [Argument("x", (1000,), dtype, "input"), Argument("n", (1000,), "int64", "input")]
    source = InputSource(args, 0)
    draw = plain_draw(args, 4)
    beyond = type(draw)(4, (BEYOND, BEYOND))
    [x, n] = source.values(beyond)
    assert x is not None and n is not None
    large = x[np.abs(x.astype("float64")) >= 2**31].astype("float64")
    assert 400 < large.size < 600 and np.abs(large).max() <= 2**34
    assert (large > 0).any() and (large < 0).any()
    if dtype == "float64":
        assert set(np.abs(large) % 1) == {0.25, 0.75}
    assert n.min() >= 0 and n.max() < 128
