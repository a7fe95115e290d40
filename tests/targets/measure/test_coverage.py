"""Which branches of a program its inputs reach, and inputs that reach the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schedlang.codec import decode, encode
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import InputDraw, further_draws, plain_draw
from schedlang.targets.measure.reached_branches import Changes, Coverage, coverage_of, more_draws
from schedlang.tvm.analysis.branches import record_branches
from schedlang.tvm.analysis.characters import thresholds_of
from schedlang.tvm.analysis.flow import changeable
from schedlang.workloads import from_script, matmul
from schedlang.workloads.workload import Argument, Workload

SIZE = 200


def program(value: str, dtype: str = "float32") -> Workload:
    """Make a program whose elements of ``y`` are ``value``, of ``a``, ``b`` and ``p``."""
    return from_script(f"""
@T.prim_func(s_tir=True)
def f(
    a: T.Buffer(({SIZE},), "{dtype}"), b: T.Buffer(({SIZE},), "{dtype}"),
    p: T.Buffer(({SIZE},), "int32"), y: T.Buffer(({SIZE},), "{dtype}"),
):
    for i in range({SIZE}):
        with T.sblock("y"):
            v = T.axis.spatial({SIZE}, i)
            y[v] = {value}
""")


def draw() -> list[Any]:
    """Positive numbers below 1, and indices."""
    rng = np.random.default_rng(0)
    numbers = [rng.uniform(0.1, 1.0, SIZE).astype(np.float32) for _ in range(2)]
    return [*numbers, rng.integers(0, SIZE, SIZE).astype(np.int32), None]


def covered(workload: Workload) -> Coverage:
    found = coverage_of(workload.mod, workload.args)
    assert found is not None
    return found


def told(coverage: Coverage) -> list[str]:
    return list(map(str, coverage.one_sided))


def searched(
    workload: Workload, useful: Callable[[Any], bool] = lambda first: True
) -> tuple[Coverage, list[InputDraw], Binding]:
    """Cover a plain draw and what is found from there, where the first argument is useful."""
    binding = Binding(workload.mod, workload.args, seed=0, verifies=True)
    coverage, plain = covered(workload), plain_draw(workload.args)
    coverage.add(binding.inputs.values(plain))

    def attempt(draw: InputDraw) -> InputDraw | None:
        first = binding.inputs.values(draw)[0]
        return draw if first is not None and useful(first) else None

    return coverage, more_draws(coverage, [plain], binding.inputs.values, attempt), binding


@pytest.mark.parametrize(
    "value",
    [
        "a[v] * b[v] + T.float32(1)",
        "T.exp(a[v])",
        "T.if_then_else(v >= 1, a[v - 1], T.float32(0))",
        "a[T.min(v + 1, 199)]",
        "T.Select(v % 2 == 0, a[v], b[v])",
    ],
)
def test_a_program_without_branches_on_values_has_none(value: str) -> None:
    assert record_branches(program(value).mod) is None


def test_a_sum_and_a_maximum_of_rows_have_none() -> None:
    assert record_branches(matmul(8, 8, 8).mod) is None
    workload = from_script("""
@T.prim_func(s_tir=True)
def f(a: T.Buffer((8, 8), "float32"), top: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 8):
        with T.sblock("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], a[vi, vk])
""")
    assert record_branches(workload.mod) is None


@pytest.mark.parametrize(
    ("value", "sides"),
    [
        ("T.max(a[v], T.float32(0))", ["a[v] < 0"]),
        ("T.min(a[v], T.float32(1))", ["a[v] > 1"]),
        ("T.max(a[v] - T.float32(2), T.float32(0))", ["a[v] - 2 > 0"]),
        ("T.Select(a[v] > T.float32(50), b[v], a[v])", ["a[v] > 50"]),
        ("T.if_then_else(a[v] < T.float32(-3), b[v], a[v])", ["a[v] < -3"]),
        ("T.fabs(a[v])", ["a[v] < 0"]),
        ("a[T.min(p[v], 250)]", ["p[v] > 250"]),
        ('T.if_then_else(T.Cast("bool", p[v] + 1), a[v], b[v])', ['not Cast("bool", p[v] + 1)']),
        ("T.Select(T.isnan(a[v]), b[v], a[v])", ["isnan(a[v])"]),
        ('T.Cast("float32", a[v] >= T.float32(5))', ["a[v] >= 5"]),
        ("T.max(a[v], a[v])", ["a[v] > a[v]", "a[v] < a[v]"]),
    ],
)
def test_sides_that_no_input_takes_are_told(value: str, sides: list[str]) -> None:
    workload = program(value)
    coverage = covered(workload)
    coverage.add(draw())
    (line,) = told(coverage)
    assert line == f"block 'y': no input has {' or '.join(sides)}"


def test_inputs_of_both_characters_cover_a_branch() -> None:
    workload = program("T.max(a[v], T.float32(0))")
    negative = draw()
    negative[0] = -negative[0]
    coverage = covered(workload)
    assert coverage.add(draw()) and coverage.add(negative)
    assert told(coverage) == []


def test_equal_operands_of_a_maximum_take_no_side() -> None:
    workload = program("T.max(a[v], T.float32(0))")
    coverage, zeros = covered(workload), draw()
    zeros[0][:] = 0
    assert not coverage.add(zeros)
    assert coverage.one_sided[0].missed == (0, 1)
    assert coverage.add(draw()) and not coverage.add(draw())


@pytest.mark.parametrize(
    "value",
    [
        "T.min(a[v], T.float32(1))",
        "T.max(a[v] - T.float32(2), T.float32(0))",
        "T.max(T.min(a[v] * b[v], T.float32(6)), T.float32(-6))",
        "T.Select(a[v] > T.float32(50), b[v], a[v])",
        "T.Select(a[v] > T.float32(12345), b[v], a[v])",
        "T.Select(a[v] == b[v], b[v], a[v] * T.float32(2))",
        "T.Select(a[v] == T.float32(0.5), b[v], a[v] * T.float32(2))",
        "T.if_then_else(a[v] > T.float32(3) and b[v] < T.float32(-3), b[v], a[v])",
        "T.if_then_else(a[v] > T.float32(2), T.max(b[v], T.float32(4)), T.float32(0))",
        "T.max(a[p[v]], T.float32(9))",
    ],
)
def test_inputs_are_found_for_each_side(value: str) -> None:
    workload = program(value)
    coverage, found, binding = searched(workload)
    assert 1 <= len(found) <= 3 and told(coverage) == []
    # What a draw says is all that another process needs to make the same inputs.
    other = Binding.unpack(*binding.pack())
    for one in found:
        values = binding.inputs.values(one)
        again = other.inputs.values(decode(type(one), json.loads(json.dumps(encode(one)))))
        assert values[3] is None and again[3] is None
        assert all((x == y).all() for x, y in zip(values[:3], again[:3], strict=True))  # type: ignore[union-attr]
        if "p[v]" in value:
            assert ((0 <= values[2]) & (values[2] < SIZE)).all()  # type: ignore[operator]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_inputs_of_integers_are_found(dtype: str) -> None:
    low = "" if dtype.startswith("u") else "-"
    workload = program(f"T.min(T.max(a[v], T.{dtype}({low}7)), T.{dtype}(121))", dtype=dtype)
    coverage, _, _ = searched(workload)
    assert told(coverage) == []


def test_changes_keep_to_the_limits_of_their_arguments() -> None:
    values = [value if value is None else value.astype(np.float16) for value in draw()]
    changes = Changes(0, (0.0, 1.0, 5e5), {0: 16.0})
    changed = [changes.apply(values, number) for number in range(24)]
    for one in changed:
        assert one[0] is not None and np.abs(one[0]).max() <= 16
        assert one[1] is values[1] and one[3] is None
    assert any(np.abs(one[0]).max() > 2 for one in changed)  # type: ignore[arg-type]


def test_changes_make_no_equal_numbers_where_these_do_harm() -> None:
    changes = Changes(0, (0.0, 1.0), {0: 1e3, 1: 1e3}, ties=False)
    for number in range(20):
        changed = changes.apply(draw(), number)[0]
        assert changed is not None and len(set(np.abs(changed))) == SIZE


def test_a_side_that_nothing_reaches_stays_and_the_search_ends() -> None:
    workload = program("T.max(a[v] * a[v], T.float32(-1))")
    coverage, found, _ = searched(workload)
    assert found == []
    assert told(coverage) == ["block 'y': no input has a[v] * a[v] < -1"]


def test_inputs_that_are_of_no_use_do_not_count() -> None:
    workload = program("T.max(a[v], T.float32(-3))")
    coverage, found, _ = searched(workload, lambda first: bool((first > -2).all()))
    assert found == []
    assert told(coverage) == ["block 'y': no input has a[v] < -3"]


@pytest.mark.parametrize(
    ("value", "free"),
    [
        ("a[v] * b[v]", {0, 1, 2, 3}),
        ("a[p[v]]", {0, 1, 3}),
        ('a[T.Cast("int32", b[v]) % 200]', {0, 2, 3}),
        ('T.Cast("float32", 7 // p[v])', {0, 1, 3}),
        ("T.if_then_else(b[v] > T.float32(0), a[p[v]], a[v])", {0, 1, 3}),
    ],
)
def test_values_that_decide_what_is_read_are_not_changed(value: str, free: set[int]) -> None:
    assert changeable(program(value).mod) == free


def test_a_branch_in_a_side_that_is_not_taken_is_not_taken() -> None:
    workload = program("T.if_then_else(a[v] > T.float32(2), T.max(b[v], T.float32(0)), a[v])")
    coverage = covered(workload)
    coverage.add(draw())
    assert sorted(found.missed for found in coverage.one_sided) == [(0,), (0, 1)]


def test_statements_that_branch_are_noted() -> None:
    workload = from_script("""
@T.prim_func(s_tir=True)
def f(a: T.Buffer((64,), "float32"), best: T.Buffer((64,), "float32"), n: T.Buffer((1,), "int32")):
    for i in range(1):
        with T.sblock("first"):
            n[0] = 0
    for i in range(64):
        with T.sblock("count"):
            v = T.axis.opaque(64, i)
            best[v] = T.float32(0)
            if a[v] > T.float32(3):
                best[v] = a[v]
                n[0] = n[0] + 1
            else:
                if a[v] < T.float32(-3):
                    best[v] = -a[v]
""")
    coverage = covered(workload)
    values = [np.linspace(-2, 2, 64, dtype=np.float32), None, None]
    coverage.add(values)
    assert [found.missed for found in coverage.one_sided] == [(0,), (0,)]
    assert told(coverage) == [
        "block 'count': no input has a[v] > 3",
        "block 'count': no input has a[v] < -3",
    ]
    assert told(searched(workload)[0]) == []


def test_values_that_decide_how_long_a_loop_runs_are_not_changed() -> None:
    workload = from_script("""
@T.prim_func(s_tir=True)
def f(
    n: T.Buffer((1,), "int32"), eps: T.Buffer((1,), "float32"), a: T.Buffer((9,), "float32"),
    y: T.Buffer((9,), "float32"), s: T.Buffer((1,), "float32"),
):
    for i in range(9):
        with T.sblock("y"):
            v = T.axis.spatial(9, i)
            y[v] = T.float32(0)
            for k in range(n[0]):
                y[v] = y[v] + T.max(a[v], T.float32(7))
    for i in range(1):
        with T.sblock("s"):
            s[0] = T.float32(1)
            while s[0] > eps[0]:
                s[0] = s[0] * T.float32(0.5)
""")
    assert changeable(workload.mod) == {2, 3}
    coverage = covered(workload)
    values = [np.array([3], np.int32), np.full(1, 0.5, np.float32), np.ones(9, np.float32)]
    assert coverage.add([*values, None, None])
    assert [found.missed for found in coverage.one_sided] == [(0,)]


LONG = """
@T.prim_func(s_tir=True)
def f(
    a: T.Buffer((3200, 3200), "float32"), b: T.Buffer((3200,), "float32"),
    y: T.Buffer((3200, 3200), "float32"),
):
    for i, j in T.grid(3200, 3200):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = {}
"""
A, B = "a[vi, vj]", "b[vj]"


def of_a_long_program(value: str) -> tuple[Coverage, list[InputDraw]]:
    workload = from_script(LONG.format(value))
    coverage, found, _ = searched(workload)
    assert coverage.looked == "part" and coverage.most_draws == 1
    return coverage, found


@pytest.mark.parametrize(
    "value",
    [
        f"T.min({A}, T.float32(300))",
        f"T.max(T.min({A} * T.float32(0.01) + {B}, T.float32(100)), T.float32(-100))",
        f"T.if_then_else({A} > T.float32(20) and {B} < T.float32(-3), {B}, {A})",
        f"T.Select({A} * {B} >= T.float32(500), {B}, {A})",
    ],
)
def test_sides_of_a_long_program_are_found_in_a_part_of_it(value: str) -> None:
    coverage, found = of_a_long_program(value)
    assert len(found) == 1 and told(coverage) == []


def test_sides_of_a_long_program_that_nothing_reaches_are_told() -> None:
    coverage, _ = of_a_long_program(f"T.max({A} * {A}, T.float32(-1))")
    condition = f"{A} * {A} < -1"
    assert told(coverage) == [f"block 'y': no input has {condition} in the part that was looked at"]


REPEATED = """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((1000,), "float32"), y: T.Buffer((1,), "float32")):
    for r, k in T.grid({0}, 1000):
        with T.sblock("y"):
            vr, vk = T.axis.remap("RR", [r, k])
            with T.init():
                y[0] = T.float32(0)
            y[0] = y[0] + T.max(a[vk], T.float32(30))
"""


def test_a_long_program_without_parts_is_run_as_a_whole() -> None:
    coverage, found, _ = searched(from_script(REPEATED.format(12_000)))
    assert coverage.looked == "all" and coverage.most_runs > 5
    assert len(found) == 1 and told(coverage) == []


def test_nobody_knows_the_sides_of_a_longer_one_without_parts() -> None:
    coverage, found, _ = searched(from_script(REPEATED.format(300_000)))
    assert found == []
    assert told(coverage) == [
        "block 'y': nobody knows whether inputs have a[vk] > 30 or a[vk] < 30"
    ]


def test_few_draws_are_kept_of_large_tensors() -> None:
    def kept(size: int, steps: float = 1e3) -> int:
        return further_draws([Argument("a", (size,), "float32", "input")], steps)

    assert (kept(1000), kept(1 << 25), kept(1 << 29)) == (3, 1, 0)
    assert kept(1000, 1e9) == 1


def test_the_draws_that_take_the_most_sides_are_kept() -> None:
    workload = program("T.max(a[v], T.float32(5)) + T.max(b[v], T.float32(7))")
    coverage = covered(workload)
    coverage.add(draw())
    coverage.most_draws = 1

    def values(one: InputDraw) -> list[Any]:
        a, b, *others = draw()
        return [a * 10 if one.change in (0, 4) else a, b * 10 if one.change == 4 else b, *others]

    [found] = more_draws(coverage, [plain_draw(workload.args)], values, lambda one: one)
    assert found.change == 4 and told(coverage) == []


@pytest.mark.parametrize(
    ("value", "near"),
    [
        ("T.min(a[v], T.float32(300))", {0: {300}}),
        ("T.max(T.float32(8), a[v] * T.float32(2) - T.float32(4))", {0: {6}}),
        ("T.min(T.float32(3) - a[v] / T.float32(4), T.float32(1))", {0: {8}}),
        ("T.Select(a[v] * b[v] > T.float32(-16), a[v], b[v])", {0: {4}, 1: {-4}}),
        ("T.min(T.exp(a[v]), T.float32(1))", {0: {0}}),
        ("T.min(T.log(a[v] - T.float32(9)), T.float32(0))", {0: {10}}),
        ("T.min(T.sqrt(a[v]), T.float32(5))", {0: {25}}),
        ("T.min(T.tanh(a[v]), T.float32(2))", {}),
        ("T.max(a[v], b[v])", {}),
        ('T.Cast("float32", T.shift_right(p[v], 3) > 5)', {2: {40}}),
        ("T.max(T.min(a[v], T.float32(6)), T.float32(-2))", {0: {-2, 6}}),
    ],
)
def test_operations_before_a_branch_are_inverted(value: str, near: dict[int, set[float]]) -> None:
    assert {
        place: set(values) for place, values in thresholds_of(program(value).mod).items()
    } == near


def test_sums_before_a_branch_are_inverted() -> None:
    workload = from_script("""
@T.prim_func(s_tir=True)
def f(
    a: T.Buffer((8, 100), "float32"), b: T.Buffer((100, 8), "float32"),
    y: T.Buffer((8, 8), "float32"),
):
    c = T.sblock_alloc_buffer((8, 8), "float32")
    for i, j, k in T.grid(8, 8, 100):
        with T.sblock("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
    for i, j in T.grid(8, 8):
        with T.sblock("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.min(c[vi, vj] * T.float32(0.5), T.float32(2450))
""")
    assert thresholds_of(workload.mod) == {0: (7,), 1: (7,)}
    coverage, found, _ = searched(workload)
    assert found and told(coverage) == []
