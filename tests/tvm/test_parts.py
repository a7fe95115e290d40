"""Statements of TVM's programs: what is inside, and copies of loops."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.tirx import For, ForKind

from schedlang.tvm import statements
from schedlang.tvm.program import MAIN
from schedlang.workloads import matmul
from tests.targets.programs import from_body

BRANCHES = """
for i in range(4):
    with T.sblock("copy"):
        v = T.axis.spatial(4, i)
        if v < 2:
            B[v] = A[v]
        else:
            B[v] = T.float32(0)
"""
VIEW = """
for i in range(4):
    with T.sblock("outer"):
        v = T.axis.spatial(4, i)
        part = T.match_buffer(B[v : v + 1], (1,))
        part[0] = A[v]
"""
SIGNATURE = 'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")'


def body(text: str) -> Any:
    return from_body(text, SIGNATURE)[MAIN].body


def kinds(stmt: Any) -> list[str]:
    return [type(one).__name__ for one in statements.statements_in(stmt)]


def test_both_cases_of_a_branch_are_inside() -> None:
    expected = ["SBlockRealize", "For", "SBlockRealize", "IfThenElse", "BufferStore", "BufferStore"]
    assert kinds(body(BRANCHES)) == expected


def test_an_init_comes_before_its_body() -> None:
    block = [one for one in statements.statements_in(matmul(4, 4, 4).func.body)][-3]
    assert isinstance(block, SBlockRealize)
    init, update = statements.parts_of(block)
    assert not isinstance(init.value, tirx.Add) and isinstance(update.value, tirx.Add)
    assert statements.reduces(block.block)
    spatial = [statements.is_spatial(axis) for axis, _ in statements.bindings_of(block)]
    assert spatial == [True, True, False]


def test_sequences_of_one_statement() -> None:
    store = statements.nests_of(matmul(4, 4, 4).func)[0]
    assert statements.sequence([store]).same_as(store)
    assert statements.sequence_of(statements.sequence([store, store])) == [store, store]


def test_a_changed_loop_keeps_the_rest() -> None:
    variable = tirx.Var("i", "int32")
    loop = For(variable, 0, 8, ForKind.PARALLEL, tirx.Evaluate(0), annotations={"note": 1})
    changed = statements.changed_loop(loop, tirx.Evaluate(1), extent=tirx.const(4, "int32"))
    assert int(changed.extent) == 4 and changed.kind == ForKind.PARALLEL
    assert changed.loop_var.same_as(variable) and dict(changed.annotations) == {"note": 1}
    assert statements.changed_loop(loop, loop.body, kind=ForKind.SERIAL).kind == ForKind.SERIAL


def test_a_view_is_the_tensor_that_it_is_a_part_of() -> None:
    found = [
        one.block for one in statements.statements_in(body(VIEW)) if isinstance(one, SBlockRealize)
    ]
    view = found[-1].match_buffers[0].buffer
    regions = statements.Regions()
    assert regions.tensor(view).same_as(view)
    regions.note(found[-1])
    assert str(regions.tensor(view).name) == "B"
    assert regions.is_element(tirx.BufferLoad(view, [0]), regions.tensor(view))


def test_bound_variables_stand_for_expressions() -> None:
    one, two, free = (tirx.Var(name, "int32") for name in ("one", "two", "free"))
    definitions = statements.BufferDefinitions()
    definitions.bound = {two: one + 1, one: free}
    resolved = definitions.resolved(two)
    assert isinstance(resolved, tirx.Add) and resolved.a.same_as(free)
