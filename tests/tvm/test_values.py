"""Questions about expressions of TVM's programs."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.tirx import Var

from schedlang.tvm import values
from schedlang.tvm.values import OPPOSITES

A = tirx.decl_buffer((4, 4), "float32", name="A")
I = tirx.decl_buffer((4,), "int32", name="I")  # noqa: E741
V, W = Var("v", "int32"), Var("w", "int32")
INNER = tirx.BufferLoad(I, [V])
LOAD = tirx.BufferLoad(A, [INNER, W])
CHOICE = tirx.if_then_else(V < W, LOAD, tirx.const(0.0, "float32"))
SELECT = tirx.Select(V < W, V, W)


def test_loads_are_found_inside_out() -> None:
    found = values.loads_of(CHOICE)
    assert [str(load.source.name) for load in found] == ["I", "A"]
    assert values.has_loads(LOAD) and not values.has_loads(SELECT)
    assert values.loads_of(V) == []


def test_variables_outside_of_loads() -> None:
    found = values.found_outside_loads(LOAD + tirx.Cast("float32", V), Var)
    assert len(found) == 1 and found[0].same_as(V)
    assert values.mentions(LOAD, [W]) and not values.mentions(INNER, [W])


def test_a_node_is_held_only_if_it_is_the_same() -> None:
    other = Var("v", "int32")
    assert values.holds([W, V], V) and not values.holds([W, other], V)
    assert values.position_of(V, [W, V]) == 1
    assert values.position_of(other, [W, V]) == -1


def test_both_forms_of_a_choice() -> None:
    for node, yes in ((CHOICE, LOAD), (SELECT, V)):
        choice = values.choice_of(node)
        assert choice is not None
        assert choice[1].same_as(yes)
    assert values.choice_of(tirx.exp(LOAD)) is None
    assert values.choice_of(V) is None


def test_names_of_calls() -> None:
    assert values.called(CHOICE) == values.IF_THEN_ELSE
    assert values.called(V) == ""


@pytest.mark.parametrize("expression", [V + W, tirx.Not(V < W), SELECT, CHOICE, LOAD, V])
def test_operands_are_all_parts(expression: tirx.PrimExpr) -> None:
    count = {"Add": 2, "Not": 1, "Select": 3, "Call": 3, "TensorLoad": 2, "Var": 0}
    assert len(values.operands_of(expression)) == count[type(expression).__name__]


def test_only_integers_are_constants() -> None:
    assert values.constant(3) == values.constant(tirx.const(3, "int64")) == 3
    assert values.constant(V) is None
    assert values.constant(tirx.const(3.0, "float32")) is None
    assert values.extent_of(V) == -1 and values.extent_of(V, 8) == 8


def test_variables_are_replaced() -> None:
    changed = values.substituted(V + W, {V: W})
    assert changed.a.same_as(W) and changed.b.same_as(W)
    assert values.substituted(LOAD, {}).same_as(LOAD)


@pytest.mark.parametrize("kind", OPPOSITES)
def test_opposites_are_opposites_of_each_other(kind: type) -> None:
    assert OPPOSITES[OPPOSITES[kind]] is kind


@pytest.mark.parametrize(
    ("dtype", "integer", "floating", "bits"),
    [
        ("int8", True, False, 8),
        ("uint64", True, False, 64),
        ("bfloat16", False, True, 16),
        ("float32x4", False, True, 128),
        ("bool", False, False, 8),
    ],
)
def test_types(dtype: str, integer: bool, floating: bool, bits: int) -> None:
    buffer = tirx.decl_buffer((2,), dtype)
    assert values.dtype_of(buffer) == dtype
    assert values.is_integer(buffer) is integer
    assert values.is_floating(buffer) is floating
    assert values.element_bits(dtype) == bits


def test_parts_of_bytes_count_once_a_tensor() -> None:
    assert values.element_bytes("int4") == 1
    assert values.tensor_bytes((3, 3), "int4") == 5
    assert values.tensor_bytes((), "float32") == 4
