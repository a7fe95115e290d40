"""Integers that stay symbolic in a trace, and index maps made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tvm import tirx
from tvm.tirx.function import IndexMap as TVMIndexMap

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.expressions import IndexMap, IntExpr, IntOp, IntRV, maximum, minimum
from schedlang.language.schedule import Schedule, Trace
from schedlang.tvm.program import structurally_equal
from schedlang.tvm.values import index_map_from_tvm, index_map_to_tvm
from tests.language.programs import product


def drawn(value: int) -> IntRV:
    return Schedule(product()).sample_int_range(-99, 100, decision=value)


# -- in the host program: integers -----------------------------------------------------------------


def test_drawn_integers_compare_and_count_as_integers() -> None:
    four, five = drawn(4), drawn(5)
    assert four == 4 and four != 5 and four == drawn(4) and four != five
    assert four < 5 and four <= 4 and five > four and five >= 5 and 3 < four
    assert not four > 4 and not four < four
    assert four < 4.5 and four > 3.5 and 4.5 > four and four == 4.0 and not four >= 4.25
    assert hash(four) == hash(4) and {four, 4} == {4}
    assert int(four) == 4 and four.value == 4 and list(range(four)) == [0, 1, 2, 3]
    assert "abcdef"[four] == "e" and bool(four) and not drawn(0)
    assert [1, 2, 4].index(four) == 2  # type: ignore[arg-type]
    assert four != "4" and four is not None and four != 4.5
    assert isinstance(four * 2, IntExpr) and four * 2 == 8
    assert str(four) == "v0" and repr(four) == "IntRV(v0=4)"


OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, minimum, maximum,
]  # fmt: skip


@given(st.sampled_from(OPERATORS), st.integers(-99, 99), st.integers(-99, 99))
def test_arithmetic_means_what_it_means_in_python(
    apply: Callable[[Any, Any], Any], left: int, right: int
) -> None:
    if apply in (operator.floordiv, operator.mod) and right == 0:
        return
    exact = apply(left, right)
    for a, b in ((drawn(left), right), (left, drawn(right)), (drawn(left), drawn(right))):
        result = apply(a, b)
        assert isinstance(result, IntOp) and result == exact and int(result) == exact
    assert apply(left, right) == exact and type(apply(left, right)) is int
    assert -drawn(left) == -left


def test_other_operands_are_refused() -> None:
    for use in (
        lambda v: v * 1.5,
        lambda v: v + "1",
        lambda v: v + True,
        lambda v: 2.0 - v,
        lambda v: v / 2,
        lambda v: 2 / v,
    ):
        with pytest.raises(TypeError):
            use(drawn(4))
    with pytest.raises(ValueError, match="unknown operation '\\*\\*'; known: \\+, -, "):
        IntOp("**", 2, drawn(3))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda v: v + 1, "v0 + 1"),
        (lambda v: (v + 1) * 2, "(v0 + 1) * 2"),
        (lambda v: v + v * 2, "v0 + (v0 * 2)"),
        (lambda v: v - (v - 1), "v0 - (v0 - 1)"),
        (lambda v: 16 // v % 3, "(16 // v0) % 3"),
        (lambda v: v * -1, "v0 * (-1)"),
        (lambda v: -v, "0 - v0"),
        (lambda v: minimum(v, 3) + maximum(4, v), "min(v0, 3) + max(4, v0)"),
    ],
)
def test_expressions_print_so_that_python_reads_the_same(make: Any, text: str) -> None:
    v = drawn(7)
    assert str(make(v)) == text
    assert eval(text, {"v0": 7, "min": min, "max": max}) == int(make(v))


# -- in a trace: symbols ---------------------------------------------------------------------------


def extents(sch: Schedule) -> list[int]:
    return [sch.extent(loop) for loop in sch.get_loops("C")]


def test_a_split_by_an_expression_follows_the_decision() -> None:
    sch = Schedule(product())
    i, j, k = sch.get_loops(sch.get_block("C"))
    v = sch.sample_categorical([1, 2, 4], name="v", decision=1)
    sch.split(i, [None, v * 2])
    sch.split(j, [minimum(v + 3, 4), None])
    sch.split(k, [16 // (v * 4), maximum(v, 4) % 16 * v])
    assert extents(sch) == [8, 2, 4, 4, 4, 4]
    for form in (sch.trace, Trace.from_json(sch.trace.to_json(), product()), sch.trace.flattened()):
        assert extents(form.with_decisions({"v": 2}).replay()) == [4, 4, 4, 4, 2, 8]
        assert extents(form.with_decisions({"v": 4}).replay()) == [2, 8, 4, 4, 1, 16]
    two = sch.trace.with_decisions({"v": 2})
    namespace: dict[str, Any] = {}
    exec(two.as_python(), namespace)
    assert namespace["sch"].trace == two.replay().trace


def test_annotations_of_lists_and_dicts_follow_the_decision() -> None:
    sch = Schedule(product())
    block = sch.get_block("C")
    v = sch.sample_categorical([1, 2, 4], name="v", decision=1)
    sch.annotate(block, "list", [v, v * 2, 7])
    sch.annotate(block, "dict", {"inner": [v - 1], "plain": 1.5})
    for decision in (1, 2, 4):
        again = sch.trace.with_decisions({"v": decision}).replay()
        annotations = again.get(again.get_block("C")).annotations
        assert [int(n) for n in annotations["list"]] == [decision, decision * 2, 7]
        assert [int(n) for n in annotations["dict"]["inner"]] == [decision - 1]


def test_an_index_map_with_drawn_values_follows_the_decision() -> None:
    sch = Schedule(product())
    copy = sch.cache_read(sch.get_block("C"), 1, "global")
    v = sch.sample_categorical([2, 4], name="v", decision=2)
    sch.transform_layout(copy, ("write", 0), lambda n, m: (n // (v * 2), m, n % (v * 2)))

    def shape(schedule: Schedule) -> list[int]:
        (region,) = schedule.get(schedule.get_block("B_global")).writes
        return [int(extent) for extent in region.source.ty.shape]

    assert shape(sch) == [4, 16, 4]
    for form in (sch.trace, Trace.from_json(sch.trace.to_json(), product()), sch.trace.flattened()):
        four = form.with_decisions({"v": 4}).replay()
        assert shape(four) == [2, 16, 8]
    assert "index_map=lambda n, m: (n // (v" in str(sch.trace)


def test_an_expression_without_a_value_at_replay_is_an_invalid_trace() -> None:
    sch = Schedule(product())
    i, *_ = sch.get_loops(sch.get_block("C"))
    v = sch.sample_int_range(0, 9, name="v", decision=4)
    sch.split(i, [None, 16 // v])
    with pytest.raises(InvalidTrace, match="split.*by zero"):
        sch.trace.with_decisions({"v": 0}).replay()
    with pytest.raises(InstructionError, match="by zero"):
        other = Schedule(product())
        zero = other.sample_int_range(0, 9, decision=0)
        other.split(other.get_loops("C")[0], [None, 16 // zero])


def test_control_flow_reads_the_value_and_is_not_recorded() -> None:
    sch = Schedule(product())
    i, *_ = sch.get_loops(sch.get_block("C"))
    v = sch.sample_categorical([1, 4], name="v", decision=4)
    if v > 2:
        sch.split(i, [None, v])
    assert extents(sch.trace.with_decisions({"v": 1}).replay()) == [16, 1, 16, 16]


# -- index maps ------------------------------------------------------------------------------------


def test_an_index_map_of_a_function() -> None:
    index_map = IndexMap.from_function(lambda i, j: (i // 16, j, i % 16))
    assert str(index_map) == "lambda i, j: (i // 16, j, i % 16)"
    assert index_map(35, 7) == (2, 7, 3)
    assert IndexMap.from_function(lambda n: n * 2)(5) == (10,)
    assert str(IndexMap.from_function(lambda n: n * 2)) == "lambda n: (n * 2,)"
    assert IndexMap.from_function(lambda i, *rest: [*rest, i], ndim=3)(1, 2, 3) == (2, 3, 1)
    assert IndexMap.from_function(lambda: (0, 1))() == (0, 1)
    assert IndexMap.from_function(lambda i: (minimum(i, 4), maximum(i, 4)))(9) == (4, 9)
    v = drawn(4)
    assert IndexMap.from_function(lambda i: (i // v, i % v))(9) == (2, 1)


def test_what_is_no_index_map() -> None:
    for function, why in (
        (lambda i: "text", "returns a tuple of indices, got 'text'"),
        (lambda i: (i, 1.5), "returns integer expressions, got 1.5"),
        (lambda i: (i, True), "returns integer expressions, got True"),
        (lambda *i: i, r"with \*args needs to know the number of dimensions"),
        (lambda *, i: i, "takes positional arguments only"),
        (lambda i: i if i else 0, "index variable i has no truth value"),
        (lambda i: range(i), "has no value here"),
    ):
        with pytest.raises(TypeError, match=why):
            IndexMap.from_function(function)
    with pytest.raises(InstructionError, match="argument 'index_map'.*returns a tuple"):
        sch = Schedule(product())
        sch.transform_layout("C", ("read", 0), lambda i, j: None)


def test_to_tvm_and_back() -> None:
    def function(i: Any, j: Any) -> tuple[Any, ...]:
        return (i // 16 + 1, j * 2 - 3, i % 16, minimum(i, j), maximum(i, 4), 7)

    ours = IndexMap.from_function(function)
    theirs = index_map_to_tvm(ours, lambda v: v.value, "int64")
    assert isinstance(theirs, TVMIndexMap)
    assert [str(v.ty) for v in theirs.initial_indices] == ["int64", "int64"]
    back = index_map_from_tvm(theirs)
    assert str(back) == str(ours) == str(index_map_from_tvm(theirs))
    for point in ((0, 0), (35, 7), (100, 3)):
        mapped = theirs.map_indices([tirx.IntImm("int64", n) for n in point])
        assert tuple(int(n) for n in mapped) == ours(*point) == back(*point)


def test_a_tvm_index_map_is_an_argument() -> None:
    sch, same = Schedule(product()), Schedule(product())
    theirs = TVMIndexMap.from_func(lambda n, m: [n // 4, m, n % 4], index_dtype="int64")
    sch.transform_layout("C", ("read", 0), theirs)
    same.transform_layout("C", ("read", 0), lambda n, m: (n // 4, m, n % 4))
    assert structurally_equal(sch.mod, same.mod)
    assert sch.trace == same.trace


def test_a_drawn_value_becomes_a_number_for_tvm() -> None:
    v = drawn(4)
    theirs = index_map_to_tvm(
        IndexMap.from_function(lambda i: (i // v,)), lambda v: v.value, "int32"
    )
    assert index_map_from_tvm(theirs)(9) == (2,)


def test_what_ours_cannot_hold_is_refused() -> None:
    i = tirx.Var("i", "int32")
    theirs = TVMIndexMap([i], [tirx.Select(i > 1, i, 0)], None)
    with pytest.raises(TypeError, match="an index map cannot hold Select"):
        index_map_from_tvm(theirs)


@pytest.mark.parametrize(
    "function",
    [lambda v1, b0: (v1 // 4, b0, v1 % 4), lambda sl, sch: (sl // 4, sch, sl % 4)],
    ids=["handles", "modules"],
)
def test_variables_that_hide_a_handle_are_renamed(function: Any) -> None:
    sch = Schedule(product())
    width = sch.sample_categorical([2, 4], decision=4)
    assert str(width) == "v0"
    sch.get_block("C")
    sch.transform_layout("C", ("read", 0), function)
    assert "lambda i0, i1: (i0 // 4, i1, i0 % 4)" in str(sch.trace)
    namespace: dict[str, Any] = {}
    exec(sch.trace.as_python(), namespace)
    assert namespace["sch"].trace == sch.trace
    assert Trace.from_json(sch.trace.to_json()) == sch.trace
